"""Why Turnstone answers otherwise than Llama Stack 0.2.12, for each difference that the clients' scenarios show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.beside.shapes import Difference

TURN = r"POST /v1/agents/\*/session/[^/]+/turn"
UNSERVED = r"(?!.*/(completions?|models)\b).*"
RESUME = r"POST /v1/agents/\*/session/\*/turn/[^/]+/resume"


@dataclass(frozen=True)
class Reason:
    """A difference that is meant.

    Attributes:
        route, what, theirs, ours, row: patterns of the differences that it explains.
        subject, in_llama_stack, here, why: its row in the reference.
    """

    subject: str
    in_llama_stack: str
    here: str
    why: str
    route: str = ".*"
    what: str = ".*"
    theirs: str = ".*"
    ours: str = ".*"
    row: str = ".*"

    def explains(self, difference: Difference) -> bool:
        patterns = (self.route, self.what, self.theirs, self.ours, self.row)
        found = (difference.route, difference.what, difference.theirs, difference.ours, difference.row)
        return all(re.fullmatch(pattern, text, re.DOTALL) for pattern, text in zip(patterns, found, strict=True))


def unexplained(differences: Iterable[Difference], reasons: Iterable[Reason]) -> Iterator[Difference]:
    """Yield the differences that no reason explains."""
    known = tuple(reasons)
    yield from (one for one in differences if not any(reason.explains(one) for reason in known))


AGENTS = (
    Reason(
        "a turn without `stream`",
        "501",
        "works",
        "the API has the parameter",
        TURN,
        "status",
        "501",
        "200",
    ),
    Reason(
        "first event of a turn",
        "`step_start`",
        "`turn_start`",
        "the API defines the event, and a client learns the turn's id at once",
        TURN,
        "events|field <turn_start>",
        "(?!turn_start).*",
        "turn_start.*|object",
    ),
    Reason(
        "`completed_at` of a turn that awaits its client",
        "a time",
        "`null`",
        "the turn is not over",
        ".*",
        r"field .*completed_at",
        "text",
        "null|null or text",
    ),
    Reason(
        "`max_infer_iters` reached with calls pending",
        "`turn_awaiting_input`",
        "`turn_complete`; the calls stay in the inference step",
        "nobody may answer these calls",
        TURN,
        "events|field <turn_(awaiting_input|complete)>.*|field .*tool_calls.*",
        row="max_infer_iters_ends_a_turn",
    ),
    Reason(
        "id of a client tool's step",
        "that of the inference before it, so `steps.retrieve` returns the wrong one",
        "its own",
        "each step can be read",
        r"GET /v1/agents/\*/session/\*/turn/\*/step/\*",
        "field .*",
        row="client_tool_.*",
    ),
    Reason(
        "unknown agent, session, turn, step, model, toolgroup",
        "400, 500, or 200 with `null` or an error event",
        "404",
        "a client raises NotFoundError",
        ".*",
        "status",
        "200|400|500|501",
        "404",
    ),
    Reason(
        "a request that streams and is refused",
        "200 with an error event",
        "the true status",
        "a client raises the error that it is",
        f"{TURN}|{RESUME}",
        "status",
        "200",
        "4..",
        row="refused_things|unknown_things",
    ),
    Reason(
        "a turn without messages, an answer without tool responses",
        "taken",
        "400",
        "there is nothing to do",
        f"{TURN}|{RESUME}",
        "status",
        "501",
        "400",
        row="every_method .*",
    ),
    Reason(
        "a turn while another one runs in its session",
        "both run",
        "409",
        "turns of a session follow one another",
        TURN,
        "status",
        "501|200",
        "409",
    ),
    Reason(
        "a model that fails",
        "501 or 500",
        "502, 504, or the model's 429",
        "a client tells the model's failure from the server's",
        ".*",
        "status",
        "500|501",
        "429|502|504",
    ),
    Reason(
        "documents of a turn",
        "texts are put before the message",
        "400",
        "not served yet",
        TURN,
        "status",
        "200",
        "400",
        row="documents_of_a_turn",
    ),
    Reason(
        "a finished turn that is resumed, unless it is the newest and its text holds the calls",
        "resumed",
        "409",
        "the answer of an older turn would change",
        RESUME,
        "status",
        "200",
        "409",
        row="older_turn_is_not_resumed",
    ),
    Reason(
        "deleting an agent, a session, a model, a shield, a toolgroup",
        "200 with `null`",
        "204 for agents and sessions",
        "that is what later versions answer",
        "DELETE .*",
        "status",
        "200|405",
        "20[04]",
    ),
    Reason(
        "lists of agents and sessions",
        "`data`, `has_more`, `url`",
        "`cursor` beside these",
        "a place in the list that costs the same anywhere",
        r"GET /v1/agents(/\*/sessions)?",
        "field cursor",
    ),
    Reason(
        "fields of agents in a list",
        "of all agents on the machine, in any order",
        "of the tenant's, oldest first",
        "the two lists hold other agents",
        "GET /v1/agents",
        r"field data.*",
    ),
    Reason(
        "metadata of a shield's violation",
        "`violation_type`",
        "`shield_id` and `hazards` beside it",
        "an application sees which shield found what",
        ".*",
        r"field .*violation\.metadata\..*",
        "absent",
    ),
)
MODELS = (
    Reason(
        "end of a stream of OpenAI's chat completions",
        "the stream ends",
        "`[DONE]`, except for Llama Stack's clients",
        "OpenAI's API sends it; Llama Stack's clients try to read it as JSON",
        "POST /v1/openai/v1/(chat/)?completions",
        "events|field ",
        ".*",
        r".*\[DONE\]|text",
    ),
    Reason(
        "tokens spent, at the end of a stream of OpenAI's chat completions",
        "as the model server sends them",
        "where `stream_options.include_usage` asks for them",
        "OpenAI's API has it so",
        "POST /v1/openai/v1/chat/completions",
        r"field <chat.completion.chunk>.usage.*",
    ),
    Reason(
        "unit of the metrics of an inference",
        "`null`",
        "`tokens`",
        "the field is for it",
        "POST /v1/inference/chat-completion",
        r"field .*metrics\[\]\.unit",
    ),
    Reason(
        "`metadata.embedding_dimension` of a model",
        "as in its run configuration",
        "where the model was registered with it",
        "model servers do not list it",
        "GET /v1/models",
        r"field data\[\]\.metadata\.embedding_dimension",
    ),
    Reason(
        "fields of OpenAI's answers without a value",
        "`null`",
        "left out, as OpenAI does",
        "clients treat both alike",
        "POST /v1/openai/v1/.*",
        r"field .*",
        "null|null or text|null or object",
        "absent|text|null",
    ),
    Reason(
        "fields of an entry of the list of models",
        "those of Llama Stack",
        "OpenAI's `id`, `object`, `created`, `owned_by` beside these",
        "clients of both read the same list",
        "GET /v1/models(/.*)?",
        r"field .*\b(id|object|created|owned_by)",
        "absent",
    ),
    Reason(
        "several answers at once (`n` > 1)",
        "passed on",
        "400",
        "not served; the error names the field",
        "POST /v1/openai/v1/chat/completions",
        "status",
        "200",
        "400",
        row="(openai_chat_)?refused",
    ),
    Reason(
        "embeddings requested in base64",
        "lists of numbers",
        "base64",
        "OpenAI's client requests it by itself, and reads both",
        "POST /v1/openai/v1/embeddings",
        r"field data\[\]\.embedding.*",
    ),
    Reason(
        "errors of OpenAI's routes",
        "in Llama Stack's envelopes",
        "in OpenAI's",
        "OpenAI's client shows the message of no other",
        "(GET|POST) /v1/openai/v1/.*",
        r"field (error|detail)(\..*)?",
    ),
    Reason(
        "legacy completions",
        "by model servers that have the route; 500 elsewhere",
        "by every model",
        "a prompt is sent as a chat where the model server has no such route",
        "POST /v1/(openai/v1|inference)/completions?",
        "status",
        "400|500",
        "200",
    ),
    Reason(
        "which chat completions are stored",
        "all",
        "those with `store: true`",
        "nothing is kept that nobody asked to keep",
        "GET /v1/openai/v1/chat/completions.*",
        "field .*|status",
        ".*",
        "(?!501).*",
        "stored_chat_completions|every_method chat.*",
    ),
)
REGISTRY = (
    Reason(
        "a model or a shield that its provider does not list",
        "not registered: 400",
        "registered; fails when it is used",
        "many model servers list less than they serve",
        "(GET|POST|DELETE) /v1/(models|shields|openai/v1/embeddings)(/some-name)?",
        "status",
        "400",
        "200",
        row="every_method .*",
    ),
    Reason(
        "`params` of a shield that is registered without any",
        "`{}`",
        "`null`",
        "the clients declare either",
        "(GET|POST) /v1/shields(/.*)?",
        r"field (data\[\]\.)?params",
        "object",
        "null|null or object",
    ),
    Reason(
        "`owner` of what is registered",
        "shown",
        "left out",
        "the clients have no such field, and a tenant sees only its own",
        ".*",
        "field .*owner",
    ),
    Reason(
        "answer to registering a toolgroup",
        "the toolgroup",
        "`null`",
        "the clients declare that nothing is returned",
        "POST /v1/toolgroups",
        "field .*",
        row="mcp_server|set_up_script",
    ),
    Reason(
        "tools of lists",
        "`identifier`",
        "`name` and `input_schema` beside it",
        "clients of 0.3 read those",
        "GET /v1/tool(s|-runtime/list-tools)(/.*)?",
        r"field .*\b(name|input_schema)",
        "absent",
    ),
    Reason(
        "`provider_resource_id` and `default` of a listed MCP tool",
        "`null`",
        "filled",
        "the server says them",
        "GET /v1/tools",
        r"field .*\b(provider_resource_id|default)",
    ),
    Reason(
        "`builtin::clock`",
        "unknown",
        "there",
        "a tool that needs no key and no other service",
        ".*",
        "status|events|field <.*>.*",
        "400|404|error|absent|object",
        "200|turn_start.*|object|absent",
        row=".*server_tool|toolgroups_and_tools_are_listed|tool_is_invoked",
    ),
    Reason(
        "`config` of a provider",
        "all settings, with secrets masked",
        "none of another server's settings",
        "addresses and settings are the operator's",
        "GET /v1/providers(/.*)?",
        "field .*",
    ),
    Reason(
        "names of providers",
        "those of its run configuration",
        "those of this server",
        "they are other programs",
        "GET /v1/providers/.*",
        "the next request",
    ),
    Reason(
        "set-up scripts that name `brave-search` and `wolfram-alpha`",
        "400 unless its run configuration has them",
        "200",
        "scripts written for any distribution run",
        "POST /v1/toolgroups",
        "status",
        "400",
        "200",
    ),
)
OTHERS = (
    Reason(
        "routes that this server does not have: files, vector stores, vector databases, responses, telemetry, routes",
        "served",
        "501 that names the client's method",
        "not served",
        UNSERVED,
        "status",
        "(?!501).*",
        "501",
    ),
    Reason(
        "routes that neither has: datasets, eval, scoring, post-training, batches",
        "404",
        "501 that names the client's method",
        "a client's user reads what is missing",
        UNSERVED,
        "status",
        "404|405",
        "501",
    ),
    Reason(
        "envelope of a wrong value",
        '`{"detail": …}` or `{"error": {"detail": {"errors": […]}}}`',
        "the second wherever a field is wrong",
        "a client reads which field it was",
        ".*",
        "field (detail|error)",
        row="every_method .*",
    ),
)
REASONS = (*AGENTS, *MODELS, *REGISTRY, *OTHERS)
SUBJECTS = {
    "Agents, sessions and turns": AGENTS,
    "Models": MODELS,
    "Tools, shields, providers": REGISTRY,
    "All routes": OTHERS,
}


def reference() -> str:
    """Return the page of the reference, in Markdown."""
    parts = [
        "# Differences from Llama Stack 0.2.12\n",
        "`make side-by-side` runs clients against both servers, with the same scenarios and the same model.",
        "What they see that is not the same, among statuses, fields and the order of events, is in these tables.\n",
    ]
    for subject, reasons in SUBJECTS.items():
        parts += [f"## {subject}\n", "| | Llama Stack 0.2.12 | Turnstone | why |", "|---|---|---|---|"]
        parts += [f"| {one.subject} | {one.in_llama_stack} | {one.here} | {one.why} |" for one in reasons]
        parts.append("")
    return "\n".join(parts)
