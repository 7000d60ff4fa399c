"""File search in responses over both stores: items, results, citations, settings and access.

Covers: services/memory/turns/file_search, services/responses/fitting, domain/responses/hosted,
  dialects/openai/responses/output, dialects/openai/responses/hosted_tools, dialects/openai/responses/input/hosted_items
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.models.scripted import ScriptedReply, call, calls
from tests.support.engine.either_store import Make
from tests.support.engine.harness import Server, attempt
from tests.support.engine.responses import read, replayed, responded
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.memory.banks import NewBank
from turnstone.domain.memory.insertions import GivenChunk
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.values.content import text_of

TERNS = "Terns breed on the gravel of the northern shore."
KNOTS = "Knots winter on mudflats, far from where they breed."
SEARCH = call("file_search", "s", query="Where do terns breed?")
INCLUDED = ["file_search_call.results"]
ANN = Caller(tenant="local", principal="ann", teams=("birds",))


def filled(server: Server, store: str, *texts: str, by: Caller = LOCAL_CALLER) -> None:
    server.core.banks.register(by, NewBank(store, "vector", "scripted"), NO_PROVIDER_DATA, attempt())
    given = [GivenChunk(text, {"document_id": f"file-{at}", "year": 2020 + at}) for at, text in enumerate(texts)]
    server.core.inserting.insert_chunks(by, store, given, NO_PROVIDER_DATA, attempt())


def tool(*stores: str, **more: Any) -> dict[str, Any]:
    return {"type": "file_search", "vector_store_ids": list(stores), **more}


def test_a_search_is_an_item_and_its_results_are_cited(make: Make) -> None:
    server = make(SEARCH, ScriptedReply(("They breed on gravel 😀.【", "1】 Knots win", "ter elsewhere【2", "】.")))
    filled(server, "vs_birds", TERNS, KNOTS)
    response = responded(server, tools=[tool("vs_birds")], include=INCLUDED)
    search, message = response["output"]
    assert (search["type"], search["status"], search["queries"]) == (
        *("file_search_call", "completed"),
        ["Where do terns breed?"],
    )
    assert [(each["file_id"], each["text"]) for each in search["results"]] == [("file-0", TERNS), ("file-1", KNOTS)]
    assert search["results"][0]["attributes"]["year"] == 2020
    (part,) = message["content"]
    assert part["text"] == "They breed on gravel 😀. Knots winter elsewhere."
    assert part["annotations"] == [
        {"type": "file_citation", "file_id": "file-0", "filename": "file-0", "index": part["text"].index(" Knots")},
        {"type": "file_citation", "file_id": "file-1", "filename": "file-1", "index": len(part["text"]) - 1},
    ]
    kinds = [event["type"].removeprefix("response.") for event in replayed(server, response["id"])]
    searched = ["in_progress", "searching", "completed"]
    assert [kind for kind in kinds if kind.startswith("file_search")] == [f"file_search_call.{x}" for x in searched]
    assert kinds.count("output_text.annotation.added") == 2
    assert read(server, response["id"]) == response


def test_the_model_gets_marks_and_the_history_keeps_them(make: Make) -> None:
    server = make(SEARCH, "On gravel【1】.", "Yes【1】.")
    filled(server, "vs_birds", TERNS)
    first = responded(server, tools=[tool("vs_birds")])
    assert first["output"][0]["results"] is None
    answer = text_of(server.inference.requests[1].messages[-1].content)
    assert "【1】" in answer
    assert TERNS in answer
    assert answer.index("write its mark") < answer.index(TERNS)
    responded(server, previous_response_id=first["id"])
    assert "On gravel【1】." in [message.content for message in server.inference.requests[2].messages]


@pytest.mark.parametrize("include", [INCLUDED, []])
def test_a_client_with_a_history_of_its_own_sends_the_search_back(make: Make, include: list[str]) -> None:
    server = make(SEARCH, "On gravel【1】.", "Yes.")
    filled(server, "vs_birds", TERNS)
    first = responded(server, tools=[tool("vs_birds")], include=include)
    again = [{"role": "user", "content": "Where?"}, *first["output"], {"role": "user", "content": "Sure?"}]
    second = responded(server, input=again, tools=[tool("vs_birds")])
    assert second["status"] == "completed"
    _, called, answered, message, _ = server.inference.requests[2].messages[-5:]
    assert [(each.tool_name, each.arguments) for each in called.tool_calls] == [
        ("file_search", {"query": "Where do terns breed?"})
    ]
    assert (TERNS in text_of(answered.content)) is bool(include)
    assert message.content == "On gravel."


def test_each_search_of_a_response_has_numbers_of_its_own(make: Make) -> None:
    both = calls(call("file_search", "a", query="terns"), call("file_search", "b", query="terns breed"))
    server = make(both, call("file_search", "c", query="terns"), "Here【1】, there【51】 and there【101】.")
    filled(server, "vs_birds", TERNS)
    response = responded(server, tools=[tool("vs_birds")])
    assert [item["type"] for item in response["output"]] == [*["file_search_call"] * 3, "message"]
    assert len(response["output"][-1]["content"][0]["annotations"]) == 3


def test_settings_of_the_search_are_those_of_the_request(make: Make) -> None:
    server = make(*[SEARCH, "Yes."] * 3)
    filled(server, "vs_birds", TERNS, KNOTS)
    newer = {"type": "gte", "key": "year", "value": 2021}
    for settings, expected in (
        ({"filters": newer}, [KNOTS]),
        ({"max_num_results": 1}, [TERNS]),
        (
            {"ranking_options": {"score_threshold": 1.0, "hybrid_search": {"embedding_weight": 0, "text_weight": 2}}},
            [TERNS],
        ),
    ):
        response = responded(server, tools=[tool("vs_birds", **settings)], include=INCLUDED)
        assert [each["text"] for each in response["output"][0]["results"]] == expected, settings


def test_a_failed_search_is_a_failed_item(make: Make) -> None:
    server = make(call("file_search", "s", query=" "), "Sorry.")
    filled(server, "vs_birds", TERNS)
    search, message = responded(server, tools=[tool("vs_birds")], include=INCLUDED)["output"]
    assert (search["status"], search["results"]) == ("failed", [])
    assert message["content"][0]["text"] == "Sorry."


@pytest.mark.parametrize("store", ["vs_none", "vs_anns"])
def test_a_store_that_the_caller_may_not_see_is_missing(make: Make, store: str) -> None:
    server = make("Yes.")
    filled(server, "vs_anns", TERNS, by=ANN)
    bob = Caller(tenant="local", principal="bob", teams=("boats",))
    add = {"type": "function", "name": "add"}
    with pytest.raises(InvalidRequest) as refused:
        responded(server, caller=bob, tools=[add, tool(store)])
    assert refused.value.location == ("tools", 1, "vector_store_ids")
    assert str(refused.value) == f"tools.1.vector_store_ids: there is no memory bank {store!r}; register it first"
    assert responded(server, caller=ANN, is_read=False, tools=[tool("vs_anns")]) == {}


def test_an_agent_lends_the_stores_that_it_names(make: Make) -> None:
    server = make(SEARCH, "Yes.")
    filled(server, "vs_birds", TERNS)
    agent_id = server.agent(toolgroups=[{"name": "builtin::file_search", "args": {"vector_store_ids": ["vs_birds"]}}])
    response = responded(server, caller=ANN, model=f"agent/{agent_id}", include=INCLUDED, is_read=False)
    assert response == {}
    assert "【1】" in text_of(server.inference.requests[1].messages[-1].content)


def test_a_call_that_was_not_run_is_incomplete(make: Make) -> None:
    server = make(SEARCH)
    filled(server, "vs_birds", TERNS)
    (search,) = responded(server, tools=[tool("vs_birds")], max_infer_iters=1)["output"]
    assert (search["status"], search["queries"]) == ("incomplete", ["Where do terns breed?"])


def test_other_tools_of_an_agent_are_calls_of_a_server(make: Make) -> None:
    server = make(call("roll", "t", sides=6), "Four.")
    agent_id = server.agent(toolgroups=["dice"])
    call_item, _ = responded(server, model=f"agent/{agent_id}")["output"]
    assert (call_item["type"], call_item["server_label"], call_item["name"], call_item["error"]) == (
        *("mcp_call", "dice"),
        *("roll", None),
    )
    assert (call_item["output"], json.loads(call_item["arguments"])) == ("4", {"sides": 6})
