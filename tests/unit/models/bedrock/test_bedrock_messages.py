"""A history as Bedrock's Converse takes it.

Covers: adapters/models/bedrock/bedrock_messages, adapters/models/bedrock/bedrock_names
"""

import base64
import re
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel, Shape
from botocore.validate import ParamValidator
from hypothesis import given
from hypothesis import strategies as st

from turnstone.adapters.models.bedrock.bedrock_messages import Conversation
from turnstone.adapters.models.bedrock.bedrock_names import Aliases
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.messages.messages import (
    CompletionMessage,
    Message,
    SystemMessage,
    ToolResponseMessage,
    UserMessage,
)
from turnstone.domain.sessions.call_pairs import answered
from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.values.content import Image, ImageItem, TextItem, Url

PNG_BYTES = b"\x89PNG\r\n\x1a\n" + bytes(20)
PNG = base64.b64encode(PNG_BYTES).decode()
PICTURE = ImageItem(image=Image(data=PNG))
SHOWN = {"image": {"format": "png", "source": {"bytes": PNG_BYTES}}}
ELSEWHERE = ImageItem(image=Image(url=Url(uri="https://example.com/a.png")))
HELLO = UserMessage(content="hello")
TAKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")


def converse(*messages: Message) -> list[dict[str, Any]]:
    return Conversation(Aliases()).converted(messages)


def reply(text: str, *calls: tuple[str, Any]) -> CompletionMessage:
    made = tuple(ToolCall(call_id=call_id, tool_name="find", arguments=arguments) for call_id, arguments in calls)
    return CompletionMessage(content=text, stop_reason="end_of_turn", tool_calls=made)


def answer(call_id: str, content: Any = "done") -> ToolResponseMessage:
    return ToolResponseMessage(call_id=call_id, content=content)


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def result(call_id: str, *content: dict[str, Any]) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": call_id, "content": list(content or ({"text": "done"},))}}


def use(call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": call_id, "name": "find", "input": arguments}}


# ---- texts


def test_a_user_message_has_its_context_after_its_content() -> None:
    question = UserMessage(content=(TextItem(text="a"), TextItem(text="b")), context="facts")
    assert converse(question) == [user({"text": "a"}, {"text": "b"}, {"text": "facts"})]


def test_messages_of_one_role_are_one_message() -> None:
    assert converse(HELLO, UserMessage(content="there"), reply("a"), reply("b"), HELLO) == [
        user({"text": "hello"}, {"text": "there"}),
        {"role": "assistant", "content": [{"text": "a"}, {"text": "b"}]},
        user({"text": "hello"}),
    ]


def test_blank_texts_are_left_out_but_never_a_whole_question() -> None:
    blank = UserMessage(content=" \n", context="")
    assert converse(HELLO, reply(" "), blank) == [user({"text": "hello"}, {"text": "(empty)"})]
    assert converse(UserMessage(content=(TextItem(text=""), PICTURE))) == [user(SHOWN)]


def test_a_history_without_its_beginning_starts_with_a_note_of_the_user() -> None:
    first, second = converse(reply("as I said"))
    assert (first["role"], second["role"]) == ("user", "assistant")
    assert "left out" in first["content"][0]["text"]


# ---- calls


def test_calls_and_their_answers_are_one_message_each_and_answers_come_first() -> None:
    messages = (HELLO, reply("hm", ("c1", {"x": 1}), ("c2", {})), answer("c1"), HELLO, answer("c2", ""))
    assert converse(*messages) == [
        user({"text": "hello"}),
        {"role": "assistant", "content": [{"text": "hm"}, use("c1", x=1), use("c2")]},
        user(result("c1"), result("c2", {"text": "(empty)"}), {"text": "hello"}),
    ]


@pytest.mark.parametrize("arguments", ["{broken", {"x": float("nan")}])
def test_arguments_that_are_no_json_are_sent_as_an_empty_object(arguments: Any) -> None:
    assert converse(HELLO, reply("", ("c1", arguments)), answer("c1"))[1]["content"] == [use("c1")]


def test_ids_of_other_providers_become_ids_that_bedrock_takes() -> None:
    ids = ("call:1", "call.1", "c" * 80, "")
    _, assistant, results = converse(HELLO, reply("", *((call_id, {}) for call_id in ids)), *map(answer, ids))
    sent = [block["toolUse"]["toolUseId"] for block in assistant["content"]]
    assert all(TAKEN.fullmatch(call_id) for call_id in sent)
    assert len(set(sent)) == len(ids)
    assert [block["toolResult"]["toolUseId"] for block in results["content"]] == sent


def test_a_repeated_id_is_replaced_and_keeps_its_own_answer() -> None:
    loop = (HELLO, reply("", ("0", {})), answer("0"))
    sent = converse(*loop, *loop, *loop)
    uses = [m["content"][0]["toolUse"]["toolUseId"] for m in sent if m["role"] == "assistant"]
    assert len(set(uses)) == 3
    results = [b["toolResult"]["toolUseId"] for m in sent for b in m["content"] if "toolResult" in b]
    assert results == uses


# ---- images


@pytest.mark.parametrize(
    "image",
    [Image(data=PNG), Image(data=f"data:image/jpeg;base64,{PNG}"), Image(url=Url(uri=f"data:image/png;base64,{PNG}"))],
)
def test_an_image_of_data_is_sent_as_its_bytes_under_its_own_format(image: Image) -> None:
    question = UserMessage(content=(TextItem(text="look"), ImageItem(image=image)))
    assert converse(question) == [user({"text": "look"}, SHOWN)]


@pytest.mark.parametrize(
    ("head", "image_format"),
    [(b"\xff\xd8\xff\xe0", "jpeg"), (b"GIF89a", "gif"), (b"RIFF\x0a\x00\x00\x00WEBP", "webp")],
)
def test_the_format_of_an_image_is_read_from_its_first_bytes(head: bytes, image_format: str) -> None:
    data = base64.b64encode(head + bytes(30)).decode()
    ((block,),) = (m["content"] for m in converse(UserMessage(content=ImageItem(image=Image(data=data)))))
    assert block["image"]["format"] == image_format


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (ELSEWHERE.image, "as data, not by URL"),
        (Image(data=base64.b64encode(b"BM" + bytes(20)).decode()), "PNG, JPEG, GIF or WebP"),
        (Image(data="abc"), "must be base64"),
    ],
)
def test_an_image_that_cant_be_sent_is_refused_in_the_last_message_and_no_session_is_lost_over_it(
    image: Image, reason: str
) -> None:
    question = UserMessage(content=(TextItem(text="look"), ImageItem(image=image)))
    with pytest.raises(InvalidRequest, match=reason) as caught:
        converse(HELLO, reply("yes?"), question)
    assert caught.value.location == ("messages",)
    assert converse(question, HELLO) == [user({"text": "look"}, {"text": "[image]"}, {"text": "hello"})]


def test_a_tools_images_are_sent_and_those_that_cant_be_are_marked() -> None:
    content = (TextItem(text="seen"), PICTURE, ELSEWHERE)
    sent = converse(HELLO, reply("", ("c1", {})), answer("c1", content))
    assert sent[-1] == user(result("c1", {"text": "seen"}, SHOWN, {"text": "[image]"}))


# ---- any history

TEXTS = st.sampled_from(["", " ", "a", "b\n"])
CALLS = st.lists(st.tuples(st.sampled_from(["0", "1", "c.1", "c:1", "", "x" * 70]), st.just({"a": [1]})), max_size=3)
MESSAGES = st.one_of(
    st.builds(UserMessage, content=TEXTS, context=st.none() | TEXTS),
    st.builds(UserMessage, content=st.tuples(st.just(PICTURE))),
    st.builds(SystemMessage, content=TEXTS),
    st.builds(
        lambda text, calls: reply(text, *{call_id: (call_id, arguments) for call_id, arguments in calls}.values()),
        TEXTS,
        CALLS,
    ),
)


@cache
def messages_shape() -> Shape:
    model = Loader().load_service_model("bedrock-runtime", "service-2")
    return ServiceModel(model).shape_for("Messages")


@given(st.lists(MESSAGES, max_size=8))
def test_any_history_whose_calls_are_answered_is_one_that_converse_takes(history: list[Message]) -> None:
    sent = converse(*answered(history, "not executed"))
    assert not ParamValidator().validate(sent, messages_shape()).has_errors()
    assert not sent or sent[0]["role"] == "user"
    assert all(before["role"] != after["role"] for before, after in pairwise(sent))
    blocks = [block for message in sent for block in message["content"]]
    assert all(message["content"] for message in sent)
    assert all(block["text"].strip() for block in blocks if "text" in block)
    ids = [block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block]
    assert len(set(ids)) == len(ids)
    for before, after in pairwise([*sent, user()]):
        called = [block["toolUse"]["toolUseId"] for block in before["content"] if "toolUse" in block]
        first = [block.get("toolResult", {}).get("toolUseId") for block in after["content"][: len(called)]]
        assert sorted(first) == sorted(called)
        assert not any("toolResult" in block for block in after["content"][len(called) :])
