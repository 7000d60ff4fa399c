"""Keys are distinct for distinct addresses and sort in the order of their readers, and ids sort by time.

Covers: adapters/machine/system, store/layout/keys
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import pairwise
from uuid import RFC_4122, UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from turnstone.adapters.machine.system import RandomIds, SystemClock
from turnstone.domain.access.identity import is_usable_tenant
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.values.ids import milliseconds, moment_of, order_key, uuid7, uuid7_milliseconds
from turnstone.ports.records import Key, Range
from turnstone.store.layout.keys import (
    MAX_COMPONENT_BYTES,
    agent_key,
    agent_list_key,
    all_turns,
    component,
    header_and_segments,
    idempotency_key,
    open_shard,
    open_shards,
    registered_key,
    registered_partition,
    segment_key,
    session_key,
    session_list_key,
    step_key,
    steps_of_turn,
    turn_key,
    turn_key_of,
    turn_ref_of,
)

PROPERTY = settings(deadline=None, max_examples=60)
HARD_PIECES = [
    "|",
    ":",
    "%",
    "#",
    "~",
    "7C",
    "3A",
    "25",
    "a",
    "é",
    "𐍈",
    "\x00",
    "\n",
    "\x7f",
    "/",
    " ",
    "\ud800",
    "\udfff",
]
HARD = st.lists(st.sampled_from(HARD_PIECES), max_size=4).map("".join)
LONG = st.builds(lambda start, end: start + "x" * 300 + end, HARD, HARD)
IDS = st.one_of(HARD, LONG, st.text(max_size=6))
ADDRESSES = st.tuples(IDS, IDS, IDS, IDS)
UNHASHED = st.one_of(HARD, st.text(max_size=6)).filter(lambda text: not component(text).startswith("#"))
SESSION = SessionRef(tenant="t", agent_id="a", session_id="s")


def turn_at(address: tuple[str, str, str, str]) -> TurnRef:
    tenant, agent_id, session_id, turn_id = address
    return TurnRef(tenant=tenant, agent_id=agent_id, session_id=session_id, turn_id=turn_id)


def keys_at(address: tuple[str, str, str, str]) -> dict[tuple[str, ...], Key]:
    """Return the keys of everything at the address, each under all the parts that identify it."""
    tenant, agent_id, session_id, turn_id = address
    ref = turn_at(address)
    order = "0196"
    return {
        ("agent", tenant, agent_id): agent_key(tenant, agent_id),
        ("agents", tenant): agent_list_key(tenant, order),
        ("sessions", tenant, agent_id): session_list_key(tenant, agent_id, order),
        ("session", tenant, agent_id, session_id): session_key(ref),
        ("segment", tenant, agent_id, session_id): segment_key(ref, 0),
        ("turn", tenant, agent_id, session_id, turn_id): turn_key(ref, turn_id),
        ("step", tenant, agent_id, session_id, turn_id): step_key(ref, turn_id, 0),
        ("answer", tenant): idempotency_key(tenant, "hash"),
        ("model", tenant, agent_id): registered_key(tenant, "model", agent_id),
        ("shield", tenant, agent_id): registered_key(tenant, "shield", agent_id),
    }


def read(query: Range, keys: Iterable[Key]) -> list[Key]:
    """Return the keys that the range reads, as a RangeStore does."""
    inside = [key for key in keys if key.pk == query.pk and query.start <= key.sk <= query.end]
    return sorted(inside, key=lambda key: key.sk.encode(), reverse=query.reverse)[: query.limit]


@settings(PROPERTY, max_examples=100)
@given(ADDRESSES, ADDRESSES)
@example(("t", "a:b", "c", "d"), ("t", "a", "b:c", "d"))
@example(("t", "a", "c", "%3A"), ("t", "a", "c", ":"))
@example(("t|agent", "a", "", ""), ("t", "agent:a", "", ""))
def test_distinct_addresses_never_share_a_key(one: tuple[str, str, str, str], other: tuple[str, str, str, str]) -> None:
    named = keys_at(one) | keys_at(other)
    assert len(named) == len(set(named.values()))


@settings(PROPERTY, max_examples=100)
@given(IDS, IDS)
def test_a_registered_resource_is_in_the_partition_of_its_kind(tenant: str, identifier: str) -> None:
    key = registered_key(tenant, "model", identifier)
    assert read(Range(registered_partition(tenant, "model")), [key]) == [key]


@settings(PROPERTY, max_examples=100)
@given(st.lists(IDS, unique=True, max_size=20))
def test_distinct_texts_are_distinct_components(texts: list[str]) -> None:
    assert len(texts) == len({component(text) for text in texts})


@pytest.mark.parametrize("hashed", ["x" * 1_000, "\ud800"], ids=["long", "a lone surrogate"])
def test_no_id_is_taken_for_the_hash_of_another(hashed: str) -> None:
    digest = sha256(hashed.encode("utf-8", "surrogatepass")).hexdigest()
    assert f"#{digest}" == component(hashed)
    assert f"%23{digest}" == component(f"#{digest}")


@settings(PROPERTY)
@given(ADDRESSES)
def test_every_key_is_utf_8_of_bounded_length(address: tuple[str, str, str, str]) -> None:
    for key in keys_at(address).values():
        assert 0 < len(key.pk.encode()) <= 3 * MAX_COMPONENT_BYTES + 16
        assert 0 < len(key.sk.encode()) <= MAX_COMPONENT_BYTES + 16


@settings(PROPERTY, max_examples=100)
@given(st.tuples(UNHASHED, UNHASHED, UNHASHED, UNHASHED))
@example(("é" * 128, "%" * 85, "|" * 85, ":" * 85))
def test_a_key_of_the_open_index_names_its_turn(address: tuple[str, str, str, str]) -> None:
    ref = turn_at(address)
    assert ref == turn_ref_of(turn_key(ref, ref.turn_id))


@settings(PROPERTY, max_examples=100)
@given(st.one_of(IDS, st.builds(lambda text, length: text + "x" * length, HARD, st.integers(240, 256))))
@example("é" * 128)
@example("é" * 128 + "x")
@example("%|:#" * 21 + "x" * 4)
@example("%|:#" * 21 + "x" * 5)
def test_a_tenant_may_have_the_names_that_a_key_of_the_open_index_can_hold(name: str) -> None:
    assert is_usable_tenant(name) is (name != "" and not component(name).startswith("#"))


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("hashed", ["x" * 257, "\ud800"], ids=["long", "a lone surrogate"])
def test_a_key_with_a_hashed_name_names_no_turn(index: int, hashed: str) -> None:
    names = ["t", "a", "s", "0196"]
    names[index] = hashed
    with pytest.raises(ValueError, match="names no turn"):
        turn_ref_of(turn_key_of(turn_at((names[0], names[1], names[2], names[3]))))


@settings(PROPERTY)
@given(ADDRESSES)
def test_a_session_is_listed_in_one_of_the_shards(address: tuple[str, str, str, str]) -> None:
    assert open_shard(turn_at(address)) in open_shards()


NUMBERS = st.sets(st.integers(0, 10**10 - 1), max_size=8)


@settings(PROPERTY)
@given(NUMBERS, st.integers(0, 10), st.uuids(version=4))
def test_one_descending_read_has_the_header_first_then_the_newest_segments(
    numbers: set[int], count: int, turn: UUID
) -> None:
    beside = [turn_key(SESSION, str(turn)), step_key(SESSION, str(turn), 0)]
    keys = [session_key(SESSION), *beside, *(segment_key(SESSION, number) for number in numbers)]
    newest = [segment_key(SESSION, number) for number in sorted(numbers, reverse=True)[:count]]
    assert [session_key(SESSION), *newest] == read(header_and_segments(SESSION, count), keys)


@settings(PROPERTY)
@given(st.sets(st.integers(0, 9_999), max_size=8), st.lists(IDS, min_size=2, max_size=2, unique=True))
def test_steps_are_read_in_order_and_only_those_of_their_turn(indexes: set[int], orders: list[str]) -> None:
    mine, other = orders
    keys = [step_key(SESSION, order, index) for order in (mine, other) for index in indexes]
    expected = [step_key(SESSION, mine, index) for index in sorted(indexes)]
    assert expected == read(steps_of_turn(SESSION, mine), [*keys, turn_key(SESSION, mine), session_key(SESSION)])


MOMENTS = st.integers(0, 2**48 - 1)
RANDOMNESS = st.binary(min_size=10, max_size=10)


@settings(PROPERTY)
@given(st.lists(st.tuples(MOMENTS, RANDOMNESS), unique_by=lambda made: made[0], max_size=8))
def test_turns_are_read_in_the_order_of_their_order_keys(made: list[tuple[int, bytes]]) -> None:
    keys = [turn_key(SESSION, uuid7(*each)) for each in made]
    expected = [turn_key(SESSION, uuid7(*each)) for each in sorted(made)]
    assert expected == read(all_turns(SESSION), [*keys, session_key(SESSION), step_key(SESSION, "0", 0)])


@settings(PROPERTY)
@given(MOMENTS, RANDOMNESS)
@example(0, bytes(10))
@example(2**48 - 1, b"\xff" * 10)
def test_an_id_is_a_uuid_of_version_7_with_its_time(unix_ms: int, randomness: bytes) -> None:
    made = uuid7(unix_ms, randomness)
    assert (UUID(made).version, UUID(made).variant) == (7, RFC_4122)
    assert unix_ms == uuid7_milliseconds(made)


@pytest.mark.parametrize("of", [str, lambda made: made.hex, lambda made: str(made).upper(), lambda made: made.urn])
@given(made=st.uuids(allow_nil=True) | st.builds(UUID, st.builds(uuid7, st.integers(0, 2**47), RANDOMNESS)))
def test_the_time_of_an_id_is_read_in_any_form_of_a_uuid(of: Callable[[UUID], str], made: UUID) -> None:
    assert uuid7_milliseconds(of(made)) == made.int >> 80
    if made.version != 7 or made.int >> 80 < milliseconds(datetime.max.replace(tzinfo=UTC)):
        begins = datetime(1970, 1, 1, tzinfo=UTC)
        passed = timedelta(milliseconds=made.int >> 80 if made.version == 7 else 0)
        assert moment_of(of(made)) == begins + passed


@settings(PROPERTY)
@given(MOMENTS, MOMENTS, RANDOMNESS, RANDOMNESS)
def test_the_text_of_ids_sorts_by_time(one: int, other: int, first: bytes, second: bytes) -> None:
    if one != other:
        assert (one < other) == (uuid7(one, first) < uuid7(other, second))


@settings(PROPERTY)
@given(MOMENTS, RANDOMNESS)
def test_ids_of_one_millisecond_differ_in_74_bits(unix_ms: int, randomness: bytes) -> None:
    value = UUID(uuid7(unix_ms, bytes(10))).int
    free = UUID(uuid7(unix_ms, b"\xff" * 10)).int ^ value
    assert free.bit_count() == 74
    assert value | int.from_bytes(randomness) & free == UUID(uuid7(unix_ms, randomness)).int


TIMES = st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC))


@settings(PROPERTY)
@given(st.lists(st.tuples(TIMES, RANDOMNESS), min_size=1, max_size=10), st.booleans())
def test_order_keys_grow_whatever_the_clock_does(moments: list[tuple[datetime, bytes]], is_still: bool) -> None:
    made: list[str] = []
    for at, randomness in moments:
        made.append(order_key(moments[0][0] if is_still else at, made[-1] if made else None, randomness))
    assert all(one < other for one, other in pairwise(made))
    assert {7} == {UUID(key).version for key in made}


@settings(PROPERTY)
@given(TIMES, st.none() | st.timedeltas(timedelta(milliseconds=1), timedelta(days=365)), RANDOMNESS)
def test_an_order_key_is_of_the_time_it_was_made(at: datetime, passed: timedelta | None, randomness: bytes) -> None:
    previous = None if passed is None else order_key(at - passed, None, randomness)
    assert milliseconds(at) == uuid7_milliseconds(order_key(at, previous, randomness))


@settings(PROPERTY)
@given(TIMES)
def test_milliseconds_are_whole_and_never_round_up(at: datetime) -> None:
    begun = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds(at))
    assert begun <= at < begun + timedelta(milliseconds=1)


def test_ids_of_this_machine_are_of_now_and_all_different() -> None:
    ids, before = RandomIds(), milliseconds(SystemClock().now())
    made = [ids.new_id() for _ in range(100)]
    after = milliseconds(SystemClock().now())
    assert len(set(made)) == 100
    assert all(before <= uuid7_milliseconds(each) <= after for each in made)
    assert ids.order_key(SystemClock().now(), made[-1]) > made[-1]
