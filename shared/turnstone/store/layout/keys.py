"""Where each record lives. Pure, and the only place that knows the layout.

What is scanned by is the partition key, what is scanned over the sort key. Components are percent-encoded, so that no
id can reach into another's partition; above 256 bytes, or where UTF-8 can't hold it, its hash takes its place.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import unquote
from zlib import crc32

from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.ports.records import Key, Range

if TYPE_CHECKING:  # who has no job knows no jobs
    from turnstone.domain.jobs import Job

MAX_COMPONENT_BYTES = 256
OPEN_SHARDS = 8
USAGE_SHARDS = 8
SINGLE = "#"
HEADER = "ctx:~"
KINDS = frozenset({"agent", "session", "turn", "step", "attachment", "completion"})


def component(text: str) -> str:
    """Return the text as one component of a key; distinct texts give distinct components."""
    return _encoded_once(text) if len(text) <= MAX_COMPONENT_BYTES else _encoded(text)


def _encoded(text: str) -> str:
    encoded = text.replace("%", "%25").replace("|", "%7C").replace(":", "%3A").replace("#", "%23")
    try:
        if len(encoded.encode()) <= MAX_COMPONENT_BYTES:
            return encoded
    except UnicodeEncodeError:
        pass  # half of a character, which no store takes
    return "#" + sha256(encoded.encode("utf-8", "surrogatepass")).hexdigest()


_encoded_once = lru_cache(maxsize=4_096)(_encoded)  # a turn asks for the same few some forty times


def agent_key(tenant: str, agent_id: str) -> Key:
    return Key(f"{component(tenant)}|agent:{component(agent_id)}", SINGLE)


def agent_list(tenant: str) -> str:
    """Return the partition of the list of a tenant's agents."""
    return f"{component(tenant)}|agents"


def agent_list_key(tenant: str, order: str) -> Key:
    return Key(agent_list(tenant), order)


def session_list(tenant: str, agent_id: str) -> str:
    """Return the partition of the list of an agent's sessions."""
    return f"{component(tenant)}|session:{component(agent_id)}"


def session_list_key(tenant: str, agent_id: str, order: str) -> Key:
    return Key(session_list(tenant, agent_id), order)


def session_partition(ref: SessionRef) -> str:
    return f"{component(ref.tenant)}|session:{component(ref.agent_id)}:{component(ref.session_id)}"


def session_key(ref: SessionRef) -> Key:
    return Key(session_partition(ref), HEADER)


def segment_key(ref: SessionRef, number: int) -> Key:
    return Key(session_partition(ref), f"ctx:{number:010d}")


def header_and_segments(ref: SessionRef, segments: int) -> Range:
    """Return the read that answers with the header first, then with the newest segments."""
    return Range(session_partition(ref), start="ctx:", end=HEADER, limit=1 + segments, reverse=True)


def segments_before(ref: SessionRef, number: int, limit: int) -> Range:
    """Return the read of the segments before that one, the newest first."""
    return Range(session_partition(ref), start="ctx:", end=segment_key(ref, number - 1).sk, limit=limit, reverse=True)


def turn_key(ref: SessionRef, order: str) -> Key:
    return Key(session_partition(ref), f"turn:{component(order)}")


def turn_key_of(ref: TurnRef) -> Key:
    return turn_key(ref, ref.turn_id)


def all_turns(ref: SessionRef) -> Range:
    return Range(session_partition(ref), start="turn:", end="turn:~")


def step_key(ref: SessionRef, order: str, index: int) -> Key:
    return Key(session_partition(ref), f"step:{component(order)}:{index:06d}")


def steps_of_turn(ref: SessionRef, order: str, count: int | None = None) -> Range:
    """Return the read of the turn's steps that are stored beside it, or of those among its first ones, that many."""
    prefix = f"step:{component(order)}:"
    end = prefix + "~" if count is None else step_key(ref, order, count - 1).sk
    return Range(session_partition(ref), start=prefix, end=end)


def attachment_key(ref: SessionRef, attachment_id: str) -> Key:
    """Return where a file is kept that a tool made in the session."""
    return Key(session_partition(ref), f"attachment:{component(attachment_id)}")


def completion_key(tenant: str, completion_id: str) -> Key:
    """Return the key of a stored chat completion; its payloads share its partition, and no other's."""
    return Key(f"{component(tenant)}|completion:{component(completion_id)}", SINGLE)


def completion_list(tenant: str) -> str:
    """Return the partition of the list of a tenant's stored chat completions."""
    return f"{component(tenant)}|completions"


def completion_list_key(tenant: str, completion_id: str) -> Key:
    """Return the place of a completion in the list, which is in the order of the ids, and so of the questions."""
    return Key(completion_list(tenant), component(completion_id))


def idempotency_key(scope: str | SessionRef, hashed: str) -> Key:
    """Return where an answer is remembered: for the tenant, or with the session that it is about, while that lives."""
    if isinstance(scope, SessionRef):
        return Key(session_partition(scope), f"idempotency:{hashed}")
    return Key(f"{component(scope)}|idempotency:{hashed}", SINGLE)


def api_key_key(hashed: str) -> Key:
    """Return the key of an API key, which is found before its tenant is known; no tenant's partitions lack the bar."""
    return Key(f"apikey:{hashed}", SINGLE)


def api_key_list(tenant: str) -> str:
    """Return the partition of the list of a tenant's API keys."""
    return f"{component(tenant)}|apikeys"


def api_key_list_key(tenant: str, key_id: str) -> Key:
    return Key(api_key_list(tenant), component(key_id))


def open_shard(ref: SessionRef) -> str:
    """Return the part of the open index this session's turns are listed in."""
    return f"turn:{crc32(session_partition(ref).encode()) % OPEN_SHARDS}"


def open_shards() -> tuple[str, ...]:
    return tuple(f"turn:{shard}" for shard in range(OPEN_SHARDS))


def turn_ref_of(key: Key) -> TurnRef:
    """Return which turn a key of the open index names. Raises ValueError if it names none.

    Where a name is hashed, nobody can tell it. No turn is opened under such a key: our own ids are short, an id in a
    request that is not one of them finds no session to open a turn in, and no caller is of a tenant with such a name.
    """
    tenant, rest = key.pk.split("|", 1)
    _, agent_id, session_id = rest.split(":")
    order = key.sk.removeprefix("turn:")
    ref = TurnRef(
        tenant=unquote(tenant), agent_id=unquote(agent_id), session_id=unquote(session_id), turn_id=unquote(order)
    )
    if turn_key_of(ref) != key:
        raise ValueError(f"{key!r} names no turn")
    return ref


def kind_and_name(key: Key) -> tuple[str, str]:
    """Return what the record is about, as a person knows it, such as a turn or an agent, and its id."""
    kind, _, name = key.sk.partition(":")
    if key.sk == HEADER:
        kind, name = "session", key.pk.rpartition(":")[2]
    elif key.sk == SINGLE:
        kind, _, name = key.pk.rpartition("|")[2].partition(":")
    if kind in KINDS and name:
        return kind, unquote(name)
    return "record", key.sk


def job_key(job: Job) -> Key:
    """Return the key of a job. Its time comes first, so that the open index has those that are due first of all."""
    names = (job.agent_id, job.session_id) if job.agent_id else (job.order,)
    ids = ":".join(map(component, names))
    return Key(f"{job_time(job.due_at)}|{component(job.tenant)}|{job.kind}:{ids}", SINGLE)


def job_time(at: datetime) -> str:
    """Return what the keys of jobs begin with that are due then; no tenant's partitions begin like this."""
    return f"job:{at.astimezone(UTC):%Y%m%dT%H%M%S.%f}"


def job_shard(key: Key) -> str:
    """Return the part of the open index that the job is listed in."""
    return f"job:{crc32(key.pk.encode()) % OPEN_SHARDS}"


def job_shards() -> tuple[str, ...]:
    return tuple(f"job:{shard}" for shard in range(OPEN_SHARDS))


def sweep_key() -> Key:
    """Return the key of the record that says which sweep is being made; no tenant's partitions lack the bar."""
    return Key("sweep", SINGLE)


def registered_partition(tenant: str, kind: str) -> str:
    """Return the partition of everything registered of a kind, such as `model`."""
    return f"{component(tenant)}|{kind}s"


def registered_key(tenant: str, kind: str, identifier: str) -> Key:
    return Key(registered_partition(tenant, kind), f"id:{component(identifier)}")


def directory_key(tenant: str) -> Key:
    """Return the key of the record that has everything the tenant registered."""
    return Key(f"{component(tenant)}|directory", SINGLE)


def usage_partitions(tenant: str, day: date) -> tuple[str, ...]:
    """Return the partitions of what a tenant's sessions spent on a day; several, so that none takes too many writes."""
    return tuple(_usage_partition(tenant, day, shard) for shard in range(USAGE_SHARDS))


def _usage_partition(tenant: str, day: date, shard: int) -> str:
    return f"{component(tenant)}|usage:{day.isoformat()}:{shard}"


def usage_key(ref: SessionRef, day: date) -> Key:
    """Return where it is told what the session spent on the day."""
    shard = crc32(session_partition(ref).encode()) % USAGE_SHARDS
    sk = f"{component(ref.agent_id)}:{component(ref.session_id)}"
    return Key(_usage_partition(ref.tenant, day, shard), sk)


def usage_ranges(tenant: str, day: date, agent_id: str | None = None) -> tuple[Range, ...]:
    """Return the reads of what the tenant's sessions, or one agent's, spent on the day."""
    partitions = usage_partitions(tenant, day)
    if agent_id is None:
        return tuple(Range(pk) for pk in partitions)
    prefix = f"{component(agent_id)}:"
    return tuple(Range(pk, start=prefix, end=prefix + "~") for pk in partitions)


def usage_names(sk: str) -> tuple[str, str]:
    """Return the ids of the agent and the session that the sort key names."""
    agent_id, session_id = sk.split(":")
    return unquote(agent_id), unquote(session_id)
