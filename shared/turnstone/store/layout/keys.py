"""Keys of records. Pure; only this module and those of `store/keys` define the layout.

Scans are within a partition key, along its sort keys. Components are percent-encoded, so that no id can reach into
another's partition; above 256 bytes, or where UTF-8 cannot encode it, its hash replaces it.
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

if TYPE_CHECKING:  # imported for type checking only: most users of keys have no jobs
    from turnstone.domain.jobs import Job

MAX_COMPONENT_BYTES = 256
OPEN_SHARDS = 8
USAGE_SHARDS = 8
SINGLE = "#"
HEADER = "ctx:~"
KINDS = frozenset({"agent", "block", "session", "turn", "step", "attachment", "completion"})


def component(text: str) -> str:
    """Return the text as one component of a key; distinct texts give distinct components."""
    return _encoded_once(text) if len(text) <= MAX_COMPONENT_BYTES else _encoded(text)


def _encoded(text: str) -> str:
    encoded = text.replace("%", "%25").replace("|", "%7C").replace(":", "%3A").replace("#", "%23")
    try:
        if len(encoded.encode()) <= MAX_COMPONENT_BYTES:
            return encoded
    except UnicodeEncodeError:
        pass  # a lone surrogate, which no store accepts
    return "#" + sha256(encoded.encode("utf-8", "surrogatepass")).hexdigest()


_encoded_once = lru_cache(maxsize=4_096)(_encoded)  # a turn uses the same few some forty times


def agent_key(tenant: str, agent_id: str) -> Key:
    return Key(f"{component(tenant)}|agent:{component(agent_id)}", SINGLE)


def agent_list(tenant: str) -> str:
    """Return the partition of a tenant's list of agents."""
    return f"{component(tenant)}|agents"


def agent_list_key(tenant: str, order: str) -> Key:
    return Key(agent_list(tenant), order)


def session_list(tenant: str, agent_id: str) -> str:
    """Return the partition of an agent's list of sessions."""
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
    """Return the read of the header, followed by the newest segments."""
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
    """Return the read of the turn's separately stored steps, or of that number of its first ones."""
    prefix = f"step:{component(order)}:"
    end = prefix + "~" if count is None else step_key(ref, order, count - 1).sk
    return Range(session_partition(ref), start=prefix, end=end)


def attachment_key(ref: SessionRef, attachment_id: str) -> Key:
    """Return the key of a file produced in the session."""
    return Key(session_partition(ref), f"attachment:{component(attachment_id)}")


def completion_key(tenant: str, completion_id: str) -> Key:
    """Return the key of a stored chat completion; its payloads share its partition, and no other's."""
    return Key(f"{component(tenant)}|completion:{component(completion_id)}", SINGLE)


def completion_list(tenant: str) -> str:
    """Return the partition of a tenant's list of stored chat completions."""
    return f"{component(tenant)}|completions"


def completion_list_key(tenant: str, completion_id: str) -> Key:
    """Return the sort key of a completion in the list, in the order of the ids, and so of the requests."""
    return Key(completion_list(tenant), component(completion_id))


def idempotency_key(scope: str | SessionRef, hashed: str) -> Key:
    """Return the key of a remembered answer: of the tenant, or of its session, while that exists."""
    if isinstance(scope, SessionRef):
        return Key(session_partition(scope), f"idempotency:{hashed}")
    return Key(f"{component(scope)}|idempotency:{hashed}", SINGLE)


def api_key_key(hashed: str) -> Key:
    """Return the key of an API key, looked up before its tenant; a tenant's partitions always contain a bar."""
    return Key(f"apikey:{hashed}", SINGLE)


def api_key_list(tenant: str) -> str:
    """Return the partition of a tenant's list of API keys."""
    return f"{component(tenant)}|apikeys"


def api_key_list_key(tenant: str, key_id: str) -> Key:
    return Key(api_key_list(tenant), component(key_id))


def open_shard(ref: SessionRef) -> str:
    """Return the shard of the open index for this session's turns."""
    return f"turn:{crc32(session_partition(ref).encode()) % OPEN_SHARDS}"


def open_shards() -> tuple[str, ...]:
    return tuple(f"turn:{shard}" for shard in range(OPEN_SHARDS))


def turn_ref_of(key: Key) -> TurnRef:
    """Return the turn of a key in the open index. Raises ValueError for any other key.

    A hashed name cannot be recovered. No turn is opened under such a key: our own ids are short, any other id in a
    request has no session to open a turn in, and such a name of a tenant is refused.
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
    """Return the record's kind, such as a turn or an agent, for people, and its id."""
    kind, _, name = key.sk.partition(":")
    if key.sk == HEADER:
        kind, name = "session", key.pk.rpartition(":")[2]
    elif key.sk == SINGLE:
        kind, _, name = key.pk.rpartition("|")[2].partition(":")
    if kind in KINDS and name:
        return kind, unquote(name)
    return "record", key.sk


def job_key(job: Job) -> Key:
    """Return the key of a job. Its time comes first, so that the open index lists the longest due first."""
    names = (job.agent_id, job.session_id) if job.agent_id else (job.order, job.name) if job.name else (job.order,)
    ids = ":".join(map(component, names))
    return Key(f"{job_time(job.due_at)}|{component(job.tenant)}|{job.kind}:{ids}", SINGLE)


def job_time(at: datetime) -> str:
    """Return the prefix of the keys of jobs due at that time; no tenant's partitions begin with it."""
    return f"job:{at.astimezone(UTC):%Y%m%dT%H%M%S.%f}"


def job_shard(key: Key) -> str:
    """Return the shard of the open index for the job."""
    return f"job:{crc32(key.pk.encode()) % OPEN_SHARDS}"


def job_shards() -> tuple[str, ...]:
    return tuple(f"job:{shard}" for shard in range(OPEN_SHARDS))


def sweep_key() -> Key:
    """Return the key of a sweep's lease; a tenant's partitions always contain a bar."""
    return Key("sweep", SINGLE)


def registered_partition(tenant: str, kind: str) -> str:
    """Return the partition of the registry entries of a kind, such as `model`."""
    return f"{component(tenant)}|{kind}s"


def registered_key(tenant: str, kind: str, identifier: str) -> Key:
    return Key(registered_partition(tenant, kind), f"id:{component(identifier)}")


def directory_key(tenant: str) -> Key:
    """Return the key of the record with all of a tenant's registry entries."""
    return Key(f"{component(tenant)}|directory", SINGLE)


def usage_partitions(tenant: str, day: date) -> tuple[str, ...]:
    """Return the partitions of a tenant's usage on a day; several, to spread the writes."""
    return tuple(_usage_partition(tenant, day, shard) for shard in range(USAGE_SHARDS))


def _usage_partition(tenant: str, day: date, shard: int) -> str:
    return f"{component(tenant)}|usage:{day.isoformat()}:{shard}"


def usage_key(ref: SessionRef, day: date) -> Key:
    """Return the key of the session's usage on the day."""
    shard = crc32(session_partition(ref).encode()) % USAGE_SHARDS
    sk = f"{component(ref.agent_id)}:{component(ref.session_id)}"
    return Key(_usage_partition(ref.tenant, day, shard), sk)


def usage_ranges(tenant: str, day: date, agent_id: str | None = None) -> tuple[Range, ...]:
    """Return the reads of the usage of the tenant's sessions, or one agent's, on the day."""
    partitions = usage_partitions(tenant, day)
    if agent_id is None:
        return tuple(Range(pk) for pk in partitions)
    prefix = f"{component(agent_id)}:"
    return tuple(Range(pk, start=prefix, end=prefix + "~") for pk in partitions)


def usage_names(sk: str) -> tuple[str, str]:
    """Return the ids of agent and session in the sort key."""
    agent_id, session_id = sk.split(":")
    return unquote(agent_id), unquote(session_id)
