"""The events in `events/`, and the records that their ids refer to."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from turnstone.adapters.models.offline.offline_embeddings import DIMENSIONS
from turnstone.dialects.letta.ids import row_in
from turnstone.dialects.llama_stack.models import RegisterModel
from turnstone.dialects.llama_stack.shields import RegisterShield
from turnstone.dialects.llama_stack.tool_requests import RegisterToolgroup
from turnstone.dialects.openai.chat.stored_completions import stored_wire
from turnstone.dialects.openai.responses.requests import CreateResponse
from turnstone.domain.access.access import Ownership
from turnstone.domain.agents.agents import Agent, AgentConfig
from turnstone.domain.agents.blocks import MemoryBlock, StoredBlock
from turnstone.domain.files.stored_files import FileUpload, StoredFile
from turnstone.domain.letta.agents import main_session
from turnstone.domain.letta.runs import ListedRun
from turnstone.domain.letta.sources import ListedJob
from turnstone.domain.letta.tools import CustomTool, StoredTool
from turnstone.domain.memory.banks import Bank, BankRef, SourceFields, VectorSpace
from turnstone.domain.memory.documents import Document, DocumentChunk
from turnstone.domain.memory.lent_banks import archive_of
from turnstone.domain.memory.vector_stores import FileBatch
from turnstone.domain.messages.messages import CompletionMessage, UserMessage
from turnstone.domain.models.stored_completions import StoredCompletion
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.registry.registry import Model, Shield, Toolgroup
from turnstone.domain.responses.requests import ListedResponse
from turnstone.domain.sessions.context import Segment, entry_of
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.tools.tool_runs import ProducedFile
from turnstone.domain.tools.tools import ToolCall, ToolDef
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.turns import InferenceStep, Turn, TurnState, TurnStatus, silent_output
from turnstone.domain.webhooks.webhooks import Delivery, SigningSecrets, Webhook, WebhookEvent
from turnstone.ports.storage import RangeStore
from turnstone.services.turns.transitions import closed, opened, paused
from turnstone.store.agents.agents import AgentStore, StoredAgent
from turnstone.store.agents.blocks import BlockStore
from turnstone.store.files.attachments import AttachmentStore
from turnstone.store.files.files import FileStore, cleaning_of
from turnstone.store.files.uploads import UploadStore, ref_of
from turnstone.store.letta.jobs import LettaJobStore
from turnstone.store.letta.runs import put_run
from turnstone.store.letta.tools import ToolStore
from turnstone.store.memory.bank_records import BankChange
from turnstone.store.memory.banks import BankStore, StoredBank
from turnstone.store.memory.contents import BankContents
from turnstone.store.memory.documents import StoredDocument, creation
from turnstone.store.memory.file_batches import FileBatchStore
from turnstone.store.models.stored_completions import StoredCompletionStore
from turnstone.store.registry.registry import RegistryStore
from turnstone.store.responses.responses import put_response
from turnstone.store.sessions.sessions import SessionStore
from turnstone.store.sessions.turns import Change, TurnStore
from turnstone.store.webhooks.deliveries import StoredDelivery, put_delivery
from turnstone.store.webhooks.webhooks import StoredWebhook, WebhookStore

FOLDER = Path(__file__).parents[3] / "events"
ACCOUNT = "123456789012"
AT = datetime(2026, 1, 1, tzinfo=UTC)
FAR_AWAY = datetime(2126, 1, 1, tzinfo=UTC)
OWNED = Ownership(owner=f"arn:aws:iam::{ACCOUNT}:user/example")
REMAINING_MS = 900_000
FILE, PART = b"a file", b"Herons nest in colonies.\n"


class Context:
    """The context that Lambda passes to a function."""

    aws_request_id = "00000000-0000-4000-8000-000000000000"
    function_name = "function"
    memory_limit_in_mb = 512
    invoked_function_arn = f"arn:aws:lambda:eu-central-1:{ACCOUNT}:function:function"

    def __init__(self, remaining_ms: int = REMAINING_MS) -> None:
        self._remaining_ms = remaining_ms

    def get_remaining_time_in_millis(self) -> int:
        return self._remaining_ms


def load_event(name: str) -> dict[str, Any]:
    """Return the event of that name."""
    event: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return event


def store_what_events_name(store: RangeStore, *, is_waiting: bool, has_block: bool = True) -> SessionRef:
    """Store the agent, the session and the turn whose ids the events hold; the turn has ended or waits for its client.

    Args:
        has_block: whether the agent has a memory block, as those of Letta's API have.

    Returns which session it is.
    """
    ids = load_event("get_step")["pathParameters"]
    ref = SessionRef(tenant=ACCOUNT, agent_id=ids["agent_id"], session_id=ids["session_id"])
    block = MemoryBlock(block_id=ids["agent_id"], label="human", value="name: Bob", updated_at=AT)
    own = StoredBlock(block=block, order=ids["agent_id"], stamp=OWNED, agents=(ids["agent_id"],))
    BlockStore(store).create(ACCOUNT, own, _attempt("block"), AT)
    _store_tool(store)
    blocks = (block.block_id,) if has_block else ()
    config = AgentConfig(
        model="offline", instructions="", client_tools=(ToolDef(name="get_weather"),), memory_blocks=blocks
    )
    agent = Agent(agent_id=ref.agent_id, agent_config=config, created_at=AT)
    AgentStore(store).create(ACCOUNT, StoredAgent(agent, ids["agent_id"], OWNED), _attempt("agent"), AT)
    session = Session(
        agent_id=ref.agent_id,
        session_id=ref.session_id,
        session_name="first",
        started_at=AT,
        order=ref.session_id,
    )
    session = session.model_copy(update={"stamp": OWNED})
    SessionStore(store).create(ACCOUNT, session, _attempt("session"), AT)
    turns = TurnStore(store)
    opening = opened(session.model_copy(update={"rev": 1}), _turn(ids), FAR_AWAY, "request")
    running = turns.commit(ref, opening)
    attachment_id = load_event("get_attachment")["pathParameters"]["attachment_id"]
    _store_completion(store)
    _store_bank(store, ids["agent_id"])
    _store_archive(store, ids["agent_id"])
    _store_files(store)
    _store_vector_store(store)
    AttachmentStore(store).put(ref, attachment_id, ProducedFile("a.txt", "text/plain", b"a file"))
    _store_response(store, ref.turn(ids["turn_id"]))
    _store_run(store, ref.turn(ids["turn_id"]))
    _store_main(store, ref.agent_id)
    _store_source(store, is_active=is_waiting)
    state = running.turns[0].with_step(_step(ids, is_waiting=is_waiting))
    response = state.turn.steps[-1].model_response  # type: ignore[union-attr] # the only step is an inference
    if is_waiting:
        turns.commit(ref, paused(running.session, state, response, FAR_AWAY))
    else:
        turns.commit(ref, closed(running.session, state.completed(response, AT), turns.view(ref, 1_000).open_segment))
    return ref


def _store_tool(store: RangeStore) -> None:
    """Store the tool of Python whose id an event holds."""
    tool_id = load_event("update_letta_tool")["pathParameters"]["proxy"].removeprefix("tools/tool-")
    tool = CustomTool(
        tool_id=tool_id, name="own", source_code="def own():\n    'Do it.'\n", parameters={"type": "object"}
    )
    stored = StoredTool(tool=tool, order=tool_id, stamp=OWNED)
    ToolStore(store).create(ACCOUNT, stored, _attempt("tool"), AT)


def _store_response(store: RangeStore, ref: TurnRef) -> None:
    request = CreateResponse.model_validate({"background": True, "model": "offline", "input": "hello"}).to_new().sent
    listed = ListedResponse(
        agent_id=ref.agent_id,
        session_id=ref.session_id,
        order=ref.turn_id,
        model="offline",
        ends_at=FAR_AWAY,
        stamp=OWNED,
    )
    store.write(put_response(ref, request, listed))


def _store_run(store: RangeStore, ref: TurnRef) -> None:
    listed = ListedRun(agent_id=ref.agent_id, session_id=ref.session_id, ends_at=FAR_AWAY, stamp=OWNED)
    store.write([put_run(ref, listed)])


def _store_source(store: RangeStore, *, is_active: bool) -> None:
    """Store a source with a file of one passage, and its job."""
    source_id = load_event("get_source")["path"].rpartition("/")[2]
    file_id = load_event("delete_source_file")["path"].rpartition("/")[2]
    order = file_id.removeprefix("file-")
    bank = Bank(
        bank_id=source_id,
        kind="keyword",
        name="birds",
        created_at=AT,
        source=SourceFields(updated_at=AT),
        stamp=OWNED,
    )
    BankStore(store).create(ACCOUNT, StoredBank(bank, source_id), _attempt("source"))
    ref = BankRef(ACCOUNT, source_id, source_id)
    document = Document(
        document_id=file_id,
        status="in_progress" if is_active else "completed",
        created_at=AT,
        insertion_id=order,
        chunks=1,
    )
    change = BankChange(file_id, (DocumentChunk(file_id, 0, "The sky is blue.", 4, {}),))
    contents = BankContents(store)
    contents.write(ref, [*creation(ref, StoredDocument(document, order, order)), contents.put_change(ref, change, "1")])
    job = ListedJob(
        order=order,
        source_id=source_id,
        file_id=file_id,
        created_at=AT,
        ends_at=FAR_AWAY,
        stamp=OWNED,
    )
    LettaJobStore(store).create(ACCOUNT, job, _attempt("job"))


def _store_main(store: RangeStore, agent_id: str) -> None:
    """Store the agent's session of Letta's API with the turn of the message whose id an event holds."""
    order, _ = row_in(load_event("update_letta_message")["pathParameters"]["proxy"].rpartition("/")[2])
    ref = SessionRef(tenant=ACCOUNT, agent_id=agent_id, session_id=main_session(agent_id, 0))
    session = Session(
        agent_id=agent_id,
        session_id=ref.session_id,
        session_name="main",
        started_at=AT,
        order=ref.session_id,
        stamp=OWNED,
        last_order=order,
    )
    SessionStore(store).create(ACCOUNT, session, _attempt("main"), AT)
    turn = Turn(
        turn_id=order,
        session_id=ref.session_id,
        input_messages=(UserMessage(content="hello"),),
        output_message=CompletionMessage(content="hello", stop_reason="end_of_turn"),
        started_at=AT,
        completed_at=AT,
    )
    state = TurnState(turn=turn, order=order, status=TurnStatus.COMPLETED)
    log = Segment(number=0).appended(entry_of(state))
    TurnStore(store).commit(ref, Change(session.model_copy(update={"rev": 1}), (state,), (log,)))


def _store_webhook(store: RangeStore) -> None:
    """Store a webhook, and a delivery that has ended."""
    named = load_event("resend_delivery")["pathParameters"]
    webhook = Webhook(
        webhook_id=named["webhook_id"],
        url="https://hooks.example/turnstone",
        event_types=("turn.expired",),
        created_at=AT,
    )
    stored = StoredWebhook(webhook, SigningSecrets(current=SecretStr("whsec_c2VjcmV0")))
    WebhookStore(store, lambda tenant, rev: None).create(ACCOUNT, stored, _attempt("webhook"), AT)
    delivery = Delivery(
        delivery_id=named["delivery_id"],
        webhook_id=webhook.webhook_id,
        event=WebhookEvent(event_id="event", event_type="webhook.test", created_at=AT, data={}),
        status="failed",
        next_try_at=None,
        created_at=FAR_AWAY,
    )
    store.write([put_delivery(ACCOUNT, StoredDelivery(delivery))])


def _store_bank(store: RangeStore, content_id: str) -> None:
    bank_id = load_event("get_vector_db")["pathParameters"]["vector_db_id"]
    space = VectorSpace(model="offline", dimension=DIMENSIONS)
    bank = Bank(bank_id=bank_id, kind="vector", space=space, created_at=AT, stamp=OWNED)
    BankStore(store).create(ACCOUNT, StoredBank(bank, content_id), _attempt("bank"))
    document_id = load_event("get_document")["pathParameters"]["document_id"]
    document = Document(document_id=document_id, status="completed", created_at=AT, insertion_id=content_id)
    store.write(creation(BankRef(ACCOUNT, content_id, bank_id), StoredDocument(document, content_id, content_id)))


def _store_archive(store: RangeStore, agent_id: str) -> None:
    """Store an archival memory with a passage."""
    passage_id = load_event("delete_passage")["path"].rpartition("/passage-")[2]
    bank = Bank(bank_id=archive_of(agent_id), kind="keyword", created_at=AT, lives_with_agent=agent_id, stamp=OWNED)
    BankStore(store).create(ACCOUNT, StoredBank(bank, passage_id), _attempt("archive"))
    ref = BankRef(ACCOUNT, passage_id, bank.bank_id)
    document = Document(document_id=passage_id, status="completed", created_at=AT, insertion_id=passage_id, chunks=1)
    change = BankChange(passage_id, (DocumentChunk(passage_id, 0, "The sky is blue.", 4, {}),))
    contents = BankContents(store)
    contents.write(
        ref, [*creation(ref, StoredDocument(document, passage_id, passage_id)), contents.put_change(ref, change, "1")]
    )


def _store_files(store: RangeStore) -> None:
    """Store a file, and an upload with the part that completes it."""
    about: dict[str, Any] = {
        "filename": "herons.txt",
        "media_type": "text/plain",
        "purpose": "assistants",
        "stamp": OWNED,
    }
    file_id = load_event("get_file")["pathParameters"]["file_id"]
    file = StoredFile(file_id=file_id, size_bytes=len(FILE), created_at=AT, content_id="content", **about)
    FileStore(store).create_small(ACCOUNT, file, FILE, _attempt("file"))
    event = load_event("complete_upload")
    upload_id, (part_id,) = event["pathParameters"]["upload_id"], json.loads(event["body"])["part_ids"]
    upload = FileUpload(upload_id=upload_id, size_bytes=len(PART), created_at=AT, ends_at=FAR_AWAY, **about)
    uploads = UploadStore(store)
    uploads.create(ACCOUNT, upload, cleaning_of(ACCOUNT, upload_id, AT, FAR_AWAY), _attempt("upload"))
    part = uploads.contents.add(ref_of(ACCOUNT, upload), part_id, [PART])
    uploads.add_part(ACCOUNT, upload, part, _attempt("part"), AT)


def _store_vector_store(store: RangeStore) -> None:
    """Store a vector store with a file that is being inserted, and its batch."""
    named = load_event("cancel_file_batch")["pathParameters"]
    bank_id, batch_id = named["vector_store_id"], named["batch_id"]
    file_id = load_event("get_store_file")["pathParameters"]["file_id"]
    content_id = bank_id.removeprefix("vs_")
    space = VectorSpace(model="offline", dimension=DIMENSIONS)
    bank = Bank(bank_id=bank_id, kind="vector", space=space, created_at=AT, stamp=OWNED)
    BankStore(store).create(ACCOUNT, StoredBank(bank, content_id), _attempt("vector store"))
    ref = BankRef(ACCOUNT, content_id, bank_id)
    document = Document(
        document_id=file_id, status="in_progress", created_at=AT, insertion_id=content_id, file_id=file_id
    )
    store.write(creation(ref, StoredDocument(document, content_id, content_id)))
    batch = FileBatch(batch_id=batch_id, created_at=AT, file_ids=(file_id,))
    FileBatchStore(store).create(ref, batch, _attempt("batch"))


def _store_completion(store: RangeStore) -> None:
    completion_id = load_event("get_chat_completion")["pathParameters"]["completion_id"]
    completion = StoredCompletion(
        completion_id=completion_id, model="offline", created_at=AT, ends_at=FAR_AWAY, stamp=OWNED
    )
    wire = stored_wire(b'{"id":"%b"}' % completion_id.encode(), (), None)
    StoredCompletionStore(store).create(ACCOUNT, completion, wire)


def store_registered(store: RangeStore) -> None:
    """Store the entries that the events of the registries name, with the content of the events that register them."""
    _store_webhook(store)
    model = RegisterModel.model_validate_json(load_event("register_model")["body"]).to_model()
    RegistryStore(store, "model", Model).register(ACCOUNT, model, _attempt("model"), AT)
    toolgroup = RegisterToolgroup.model_validate_json(load_event("register_toolgroup")["body"]).to_toolgroup()
    RegistryStore(store, "toolgroup", Toolgroup).register(ACCOUNT, toolgroup, _attempt("toolgroup"), AT)
    shield = RegisterShield.model_validate_json(load_event("register_shield")["body"]).to_shield()
    RegistryStore(store, "shield", Shield).register(ACCOUNT, shield, _attempt("shield"), AT)


def _turn(ids: dict[str, str]) -> TurnState:
    turn = Turn(
        turn_id=ids["turn_id"],
        session_id=ids["session_id"],
        input_messages=(UserMessage(content="how is the weather in Oslo?"),),
        output_message=silent_output(),
        started_at=AT,
    )
    return TurnState(turn=turn, order=turn.turn_id)


def _step(ids: dict[str, str], *, is_waiting: bool) -> InferenceStep:
    call = ToolCall(call_id="call_1", tool_name="get_weather", arguments={"city": "Oslo"})
    call_message = CompletionMessage(content="", stop_reason="end_of_turn", tool_calls=(call,))
    response = CompletionMessage(content="Rain.", stop_reason="end_of_turn")
    return InferenceStep(
        turn_id=ids["turn_id"],
        step_id=ids["step_id"],
        started_at=AT,
        completed_at=AT,
        model_response=call_message if is_waiting else response,
    )


def _attempt(fingerprint: str) -> Attempt:
    return Attempt(fingerprint=fingerprint)
