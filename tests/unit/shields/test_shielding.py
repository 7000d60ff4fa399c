"""Several shields at work: at the same time, in order, each within its time; one that fails does as it was told.

Covers: adapters/sqlite/sqlite, services/shields/shielding, services/shields/lookup, services/shields/shields,
  services/threads/pending, services/threads/daemon_threads, services/threads/executor, store/registry/snapshot,
  store/registry/registry
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.fakes.shields import Judges, ScriptedShields, clean, fails, found, registered
from tests.support.engine.harness import PATIENCE_S, CountingStore, FakeClock, Gate, attempt, eventually
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import InvalidRequest, NotFound, ShieldFailed
from turnstone.domain.messages.messages import CompletionMessage, UserMessage
from turnstone.domain.models.routing import ModelRoute, Target
from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData
from turnstone.domain.registry.registry import LLAMA_GUARD, Shield
from turnstone.domain.shields.verdicts import ShieldQuestion, Verdict
from turnstone.domain.turns.turns import SafetyViolation
from turnstone.domain.values.cancellation import StopSignal
from turnstone.services.shields import shielding
from turnstone.services.shields.lookup import ShieldLookup
from turnstone.services.shields.shielding import NOT_JUDGED, STOPPED, Shieldings
from turnstone.services.shields.shields import Shields
from turnstone.services.threads.daemon_threads import DaemonThreads
from turnstone.services.threads.executor import TurnExecutor
from turnstone.services.threads.pending import Pending, Unanswered
from turnstone.store.registry.registry import RegistryStore
from turnstone.store.registry.snapshot import RegistrySnapshot

QUESTION = ShieldQuestion(judged=(UserMessage(content="hello"),), touchpoint="user-input")
OTHER = Caller(tenant="other", principal="ann")


class Place:
    """The services about shields over a store that counts what is read of it."""

    def __init__(self, store: SqliteRangeStore, configured: dict[str, Shield] | None = None, **script: Judges) -> None:
        self.store = CountingStore(store)
        self.clock = FakeClock()
        self.kinds = ScriptedShields(script)
        self.models: dict[str, ModelRoute] = {}
        directory = RegistrySnapshot(self.store, self.clock)
        registry = RegistryStore(self.store, "shield", Shield, directory.forget)
        known = ShieldLookup(directory, configured or {})
        self.shieldings = Shieldings(known, self.kinds, self._route)
        self.shields = Shields(registry, known, self.shieldings, self.clock, TurnExecutor(8))

    @property
    def reads(self) -> int:
        return sum(call.verb == "get" for call in self.store.calls)

    def _route(self, tenant: str, model_id: str) -> ModelRoute:
        if model_id not in self.models:
            raise InvalidRequest(f"model: there is no {model_id!r} of {tenant}", ("model",))
        return self.models[model_id]

    def register(self, name: str, **params: object) -> None:
        self.shields.register(LOCAL_CALLER, registered(name, **params), attempt())

    def judge(self, *names: str, question: ShieldQuestion = QUESTION) -> list[Verdict]:
        return list(self.shieldings.of(LOCAL_CALLER.tenant).judge(names, question))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteRangeStore]:
    sqlite = SqliteRangeStore(tmp_path / "turnstone.db")
    yield sqlite
    sqlite.close()


def violation_of(verdict: Verdict) -> SafetyViolation:
    assert verdict.violation is not None
    return verdict.violation


def after(seconds: float) -> Judges:
    def judge(_: ShieldQuestion) -> Verdict:
        time.sleep(seconds)
        return Verdict()

    return judge


def test_verdicts_come_in_the_order_asked_for_whoever_is_done_first(store: SqliteRangeStore) -> None:
    place = Place(store, slow=after(0.05), quick=lambda _: found("warn"), clean=clean)
    for name in ("slow", "quick", "clean"):
        place.register(name)
    assert [verdict.violation is None for verdict in place.judge("slow", "quick", "clean")] == [True, False, True]


def test_shields_work_at_the_same_time(store: SqliteRangeStore) -> None:
    meeting = threading.Barrier(3)

    def meet(_: ShieldQuestion) -> Verdict:
        meeting.wait(PATIENCE_S)
        return Verdict()

    place = Place(store, a=meet, b=meet, c=meet)
    for name in "abc":
        place.register(name)
    assert place.judge("a", "b", "c") == [Verdict()] * 3


def test_the_slow_shields_of_a_tenant_leave_threads_to_those_of_another(
    store: SqliteRangeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shielding, "MAX_PARALLEL_SHIELDS", 3)
    monkeypatch.setattr(shielding, "MAX_PARALLEL_SHIELDS_OF_TENANT", 2)
    gate, modest = Gate(), Caller(tenant="modest", principal="ann")

    def hang(_: ShieldQuestion) -> Verdict:
        gate.pass_through()
        return Verdict()

    place = Place(store, slow=hang, quick=clean)
    place.register("slow")
    place.shields.register(modest, registered("quick", timeout_seconds=5, on_failure="allow"), attempt())
    greedy = threading.Thread(target=place.judge, args=["slow"] * 5)
    greedy.start()
    gate.wait()
    with closing(place.shieldings.of(modest.tenant).judge(["quick"], QUESTION)) as verdicts:
        judged = list(verdicts)
    gate.open()
    greedy.join()
    assert judged == [Verdict()]


def test_a_violation_says_who_found_it_as_bad_as_registered_with_words_for_the_user(store: SqliteRangeStore) -> None:
    place = Place(store, a=lambda _: found(user_message=None, where="x"), b=lambda _: found(user_message="own words"))
    place.register("a")
    place.register("b", violation_level="info")
    first, second = map(violation_of, place.judge("a", "b"))
    assert (first.violation_level, first.user_message) == ("error", STOPPED)
    assert first.metadata == {"shield_id": "a", "where": "x"}
    assert (second.violation_level, second.user_message) == ("info", "own words")
    place.shields.unregister(LOCAL_CALLER, "b")
    place.register("b", user_message="Not here.")
    assert violation_of(place.judge("b")[0]).user_message == "Not here."


def test_a_shield_that_fails_stops_what_it_was_to_judge_unless_told_otherwise(store: SqliteRangeStore) -> None:
    place = Place(store, a=fails(ShieldFailed("no answer")), b=fails(ShieldFailed("no answer")))
    place.register("a")
    place.register("b", on_failure="allow", user_message="Not here.")
    closed, opened = map(violation_of, place.judge("a", "b"))
    assert (closed.violation_level, closed.user_message) == ("error", NOT_JUDGED)
    assert (opened.violation_level, opened.user_message) == ("warn", None)
    assert closed.metadata == {"shield_id": "a", "failure": "no answer"}
    assert opened.metadata == {"shield_id": "b", "failure": "no answer"}


def test_a_shield_that_takes_too_long_has_failed_and_is_told_to_stop(store: SqliteRangeStore) -> None:
    gate, heard = Gate(), []

    def silent(question: ShieldQuestion) -> Verdict:
        heard.append(question.stop)
        gate.pass_through()
        return Verdict()

    place = Place(store, a=silent)
    place.register("a", timeout_seconds=0.05)
    began = time.monotonic()
    (verdict,) = place.judge("a")
    assert 0.05 <= time.monotonic() - began < PATIENCE_S
    assert "too long" in violation_of(verdict).metadata["failure"]
    assert violation_of(verdict).violation_level == "error"
    assert heard[0].is_set
    gate.open()


def test_a_run_that_has_to_end_waits_for_no_shield(store: SqliteRangeStore) -> None:
    gates, stop = {"a": Gate(), "b": Gate()}, StopSignal()
    heard: dict[str, StopSignal | None] = {}

    def silent(name: str) -> Judges:
        def judge(question: ShieldQuestion) -> Verdict:
            heard[name] = question.stop
            gates[name].pass_through()
            return Verdict()

        return judge

    place = Place(store, a=silent("a"), b=silent("b"))
    for name in gates:
        place.register(name)
    question = ShieldQuestion(judged=QUESTION.judged, touchpoint="user-input", stop=stop)
    threading.Thread(target=lambda: (gates["a"].wait(), gates["b"].wait(), stop.set())).start()
    verdicts = place.judge("a", "b", question=question)
    assert [violation_of(verdict).violation_level for verdict in verdicts] == ["error", "error"]
    assert all(signal is not None and signal.is_set for signal in heard.values())
    for gate in gates.values():
        gate.open()


def test_who_stops_listening_has_the_others_told_to_stop(store: SqliteRangeStore) -> None:
    heard: list[StopSignal | None] = []
    gate = Gate()

    def silent(question: ShieldQuestion) -> Verdict:
        heard.append(question.stop)
        gate.pass_through()
        return Verdict()

    place = Place(store, a=lambda _: found(), b=silent)
    for name in "ab":
        place.register(name)
    with closing(place.shieldings.of(LOCAL_CALLER.tenant).judge(("a", "b"), QUESTION)) as verdicts:
        assert violation_of(next(verdicts)).user_message == "stopped"
        gate.wait()
    assert heard[0] is not None
    assert heard[0].is_set
    gate.open()


def test_a_mistake_of_ours_in_a_shield_is_no_verdict(store: SqliteRangeStore) -> None:
    place = Place(store, a=fails(ZeroDivisionError("ours")))
    place.register("a")
    with pytest.raises(ZeroDivisionError, match="ours"):
        place.judge("a")


def test_nothing_of_what_was_said_is_logged(store: SqliteRangeStore, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    place = Place(store, a=fails(ShieldFailed("no answer")))
    place.register("a")
    place.judge("a", question=ShieldQuestion(judged=(UserMessage(content="my secret"),), touchpoint="user-input"))
    assert "no answer" in caplog.text
    assert "secret" not in caplog.text


# ---- which shields there are


def test_shields_of_several_names_are_read_at_once_and_known_for_ten_seconds(store: SqliteRangeStore) -> None:
    place = Place(store, a=clean, b=clean)
    for name in "ab":
        place.register(name)
    for _ in range(3):
        place.judge("a", "b")
    assert place.reads == 1
    place.clock.advance(10)
    place.judge("a", "b")
    assert place.reads == 2


def test_a_shield_that_is_not_there_is_looked_for_every_time_and_fails_closed(store: SqliteRangeStore) -> None:
    place = Place(store, a=clean)
    for _ in range(2):
        assert violation_of(place.judge("a")[0]).violation_level == "error"
    place.register("a")
    assert place.judge("a") == [Verdict()]
    place.shields.unregister(LOCAL_CALLER, "a")
    assert "no longer registered" in violation_of(place.judge("a")[0]).metadata["failure"]


def test_a_shield_of_one_tenant_is_none_of_another(store: SqliteRangeStore) -> None:
    place = Place(store, a=clean)
    place.register("a")
    place.judge("a")
    (verdict,) = place.shieldings.of("other").judge(("a",), QUESTION)
    assert "no longer registered" in violation_of(verdict).metadata["failure"]


def test_a_configured_shield_is_everybody_s_and_can_not_be_changed(store: SqliteRangeStore) -> None:
    ours = registered("ours")
    place = Place(store, {"ours": ours}, ours=clean, a=clean)
    place.register("a")
    assert [shield.identifier for shield in place.shields.list(LOCAL_CALLER)] == ["a", "ours"]
    assert place.shields.list(OTHER) == (ours,)
    assert place.shields.get(OTHER, "ours") == ours
    assert list(place.shieldings.of("other").judge(("ours",), QUESTION)) == [Verdict()]
    assert place.reads == 0
    place.register("ours")  # in the same words
    assert place.shields.list(LOCAL_CALLER)[1] == ours
    for change in (
        lambda: place.register("ours", on_failure="allow"),
        lambda: place.shields.unregister(LOCAL_CALLER, "ours"),
    ):
        with pytest.raises(InvalidRequest, match="comes with the server"):
            change()


@pytest.mark.parametrize("field", ["input_shields", "output_shields"])
def test_a_turn_that_names_no_shield_or_one_that_is_broken_is_refused_by_its_field(
    store: SqliteRangeStore, field: str
) -> None:
    place = Place(store, a=clean, b=clean)
    for name in "ab":
        place.register(name)
    del place.kinds.script["b"]
    for named in (["a", "nobody"], ["b"]):
        config = AgentConfig.model_validate({"model": "m", "instructions": "", field: named})
        with pytest.raises(InvalidRequest) as refused:
            place.shieldings.refuse_unusable(LOCAL_CALLER.tenant, config)
        assert refused.value.location == (field,)
        assert repr(named[-1]) in str(refused.value)
    config = AgentConfig.model_validate({"model": "m", "instructions": "", field: ["a"]})
    place.shieldings.refuse_unusable(LOCAL_CALLER.tenant, config)


@pytest.mark.parametrize("field", ["input_shields", "output_shields"])
def test_a_shield_of_a_tool_that_nobody_registered_is_refused_at_its_place(store: SqliteRangeStore, field: str) -> None:
    place = Place(store, a=clean)
    place.register("a")
    for name, location in (("a", None), ("nobody", ("tools", 1, field))):
        tools = [{"type": "photogen"}, {"type": "wolfram_alpha", field: [name]}]
        config = AgentConfig.model_validate({"model": "m", "instructions": "", "tools": tools})
        if location is None:
            place.shieldings.refuse_unusable(LOCAL_CALLER.tenant, config)
            continue
        with pytest.raises(InvalidRequest, match="there is no shield 'nobody'") as refused:
            place.shieldings.refuse_unusable(LOCAL_CALLER.tenant, config)
        assert refused.value.location == location


def test_a_turn_without_shields_asks_for_none(store: SqliteRangeStore) -> None:
    place = Place(store)
    place.shieldings.refuse_unusable(LOCAL_CALLER.tenant, AgentConfig(model="m", instructions=""))
    assert place.reads == 0


def test_a_shield_that_can_not_be_made_is_not_registered(store: SqliteRangeStore) -> None:
    place = Place(store)
    with pytest.raises(InvalidRequest):
        place.register("a")
    assert place.shields.list(LOCAL_CALLER) == ()


def test_a_shield_can_be_run_outside_of_turns(store: SqliteRangeStore) -> None:
    place = Place(store, a=lambda question: found() if question.touchpoint == "assistant-output" else Verdict())
    place.register("a")
    user, model = UserMessage(content="hello"), CompletionMessage(content="hi", stop_reason="end_of_turn")
    keys = ProviderData({"openai_api_key": "mine"})
    assert place.shields.run(LOCAL_CALLER, "a", (model, user), NO_PROVIDER_DATA) is None
    violation = place.shields.run(LOCAL_CALLER, "a", (user, model), keys)
    assert violation is not None
    assert violation.metadata["shield_id"] == "a"
    (_, first), (_, second) = place.kinds.questions
    assert (first.judged, first.before) == ((model, user), ())
    assert (second.judged, second.before) == ((model,), (user,))
    assert second.provider_data is keys
    with pytest.raises(NotFound, match="shield 'b' not found"):
        place.shields.run(LOCAL_CALLER, "b", (user,), NO_PROVIDER_DATA)


def test_a_shield_that_another_process_registered_is_found_at_once(store: SqliteRangeStore) -> None:
    place, other = Place(store, a=clean, b=clean), Place(store, a=clean, b=clean)
    other.register("a")
    assert place.judge("a") == [Verdict()]
    other.register("b")
    assert place.judge("a", "b") == [Verdict()] * 2


def test_the_model_of_a_shield_is_asked_where_the_tenant_s_models_are(store: SqliteRangeStore) -> None:
    place = Place(store, guard=clean)
    guard = Shield(identifier="guard", provider_resource_id="guard-8b", provider_id=LLAMA_GUARD)
    with pytest.raises(InvalidRequest, match="no 'guard-8b' of local") as refused:
        place.shields.register(LOCAL_CALLER, guard, attempt())
    assert refused.value.location == ("provider_shield_id",)
    targets = (Target("one", "llama-guard"), Target("two", "guard"))
    place.models["guard-8b"] = ModelRoute("guard-8b", targets)
    place.shields.register(LOCAL_CALLER, guard, attempt())
    assert place.judge("guard") == [Verdict()]
    assert place.kinds.questions[0][1].targets == targets
    del place.models["guard-8b"]
    assert "no 'guard-8b'" in violation_of(place.judge("guard")[0]).metadata["failure"]


# ---- the threads


def test_threads_are_begun_as_they_are_needed_used_again_and_never_more_than_allowed() -> None:
    threads, gate = DaemonThreads(2, "few"), Gate()
    names: list[str] = []

    def held() -> None:
        names.append(threading.current_thread().name)
        gate.pass_through()

    for _ in range(3):
        threads.run(lambda: None).result(PATIENCE_S)
    waiting = [threads.run(held) for _ in range(4)]
    eventually(lambda: len(names) == 2)
    mine = [thread for thread in threading.enumerate() if thread.name == "few"]
    assert (len(mine), all(thread.daemon for thread in mine)) == (2, True)
    gate.open()
    for future in waiting:
        future.result(PATIENCE_S)
    assert len(names) == 4


def test_what_a_thread_was_to_do_and_did_not_is_raised_to_who_asked() -> None:
    def broken() -> None:
        raise KeyboardInterrupt

    threads = DaemonThreads(1, "one")
    with pytest.raises(KeyboardInterrupt):
        threads.run(broken).result(PATIENCE_S)
    assert threads.run(lambda: 5).result(PATIENCE_S) == 5


def test_what_there_was_no_thread_for_is_done_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, gate = DaemonThreads(2, "few"), Gate()
    with monkeypatch.context() as no_more_threads:
        no_more_threads.setattr(threading.Thread, "start", no_thread)
        kept = threads.run(lambda: 1)
        also_kept = threads.run(lambda: 2)
    assert not kept.done()
    assert [threads.run(lambda: 3).result(PATIENCE_S), kept.result(0), also_kept.result(0)] == [3, 1, 2]
    held = [threads.run(gate.pass_through) for _ in range(2)]
    eventually(lambda: len([thread for thread in threading.enumerate() if thread.name == "few"]) >= 2)
    gate.open()
    for future in held:
        future.result(PATIENCE_S)


def no_thread(_: object) -> None:
    raise RuntimeError("can't start new thread")


def test_one_whose_work_is_slow_leaves_threads_to_others() -> None:
    threads, gate = DaemonThreads(3, "shared", most_for_one=2), Gate()
    slow = [threads.run(gate.pass_through, "a") for _ in range(6)]
    gate.wait()
    assert [threads.run(lambda: 5, "b").result(PATIENCE_S) for _ in range(3)] == [5, 5, 5]
    gate.open()
    for future in slow:
        future.result(PATIENCE_S)
    assert [threads.run(lambda: 5, "a").result(PATIENCE_S) for _ in range(3)] == [5, 5, 5]
    eventually(lambda: not threads._busy_for and not threads._waiting_for)


def test_what_waited_for_a_thread_until_nobody_wanted_it_is_not_done() -> None:
    threads, gate, done = DaemonThreads(1, "one"), Gate(), list[str]()
    first = threads.run(gate.pass_through)
    late: Pending[None] = Pending()
    late.begin(threads, lambda: done.append("late"))
    with pytest.raises(Unanswered):
        late.answer(0.05)
    gate.open()
    first.result(PATIENCE_S)
    threads.run(lambda: None).result(PATIENCE_S)
    assert done == []
