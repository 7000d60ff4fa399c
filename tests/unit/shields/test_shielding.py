"""Several shields at work: in parallel, in order, each within its time; a failing shield follows its `on_failure`.

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
from turnstone.domain.shields.verdicts import ShieldQuestion
from turnstone.domain.turns.turns import SafetyViolation, Verdict
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


class Process:
    """The services about shields over a store that counts its reads."""

    def __init__(self, store: SqliteRangeStore, configured: dict[str, Shield] | None = None, **script: Judges) -> None:
        self.store = CountingStore(store)
        self.clock = FakeClock()
        self.kinds = ScriptedShields(script)
        self.models: dict[str, ModelRoute] = {}
        directory = RegistrySnapshot(self.store, self.clock)
        registry = RegistryStore(self.store, "shield", Shield, directory.forget)
        lookup = ShieldLookup(directory, configured or {})
        self.shieldings = Shieldings(lookup, self.kinds, self._route)
        self.shields = Shields(registry, lookup, self.shieldings, self.clock, TurnExecutor(8))

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


def test_verdicts_come_in_the_requested_order_whichever_is_done_first(store: SqliteRangeStore) -> None:
    process = Process(store, slow=after(0.05), quick=lambda _: found("warn"), clean=clean)
    for name in ("slow", "quick", "clean"):
        process.register(name)
    assert [verdict.violation is None for verdict in process.judge("slow", "quick", "clean")] == [True, False, True]


def test_shields_work_at_the_same_time(store: SqliteRangeStore) -> None:
    meeting = threading.Barrier(3)

    def meet(_: ShieldQuestion) -> Verdict:
        meeting.wait(PATIENCE_S)
        return Verdict()

    process = Process(store, a=meet, b=meet, c=meet)
    for name in "abc":
        process.register(name)
    assert process.judge("a", "b", "c") == [Verdict(shield_id=name) for name in "abc"]


def test_the_slow_shields_of_a_tenant_leave_threads_to_those_of_another(
    store: SqliteRangeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shielding, "MAX_PARALLEL_SHIELDS", 3)
    monkeypatch.setattr(shielding, "MAX_PARALLEL_SHIELDS_OF_TENANT", 2)
    gate, modest = Gate(), Caller(tenant="modest", principal="ann")

    def hang(_: ShieldQuestion) -> Verdict:
        gate.pass_through()
        return Verdict()

    process = Process(store, slow=hang, quick=clean)
    process.register("slow")
    process.shields.register(modest, registered("quick", timeout_seconds=5, on_failure="allow"), attempt())
    greedy = threading.Thread(target=process.judge, args=["slow"] * 5)
    greedy.start()
    gate.wait()
    with closing(process.shieldings.of(modest.tenant).judge(["quick"], QUESTION)) as verdicts:
        judged = list(verdicts)
    gate.open()
    greedy.join()
    assert judged == [Verdict(shield_id="quick")]


def test_a_violation_names_its_shield_with_the_registered_level_and_words_for_the_user(store: SqliteRangeStore) -> None:
    process = Process(
        store, a=lambda _: found(user_message=None, where="x"), b=lambda _: found(user_message="own words")
    )
    process.register("a")
    process.register("b", violation_level="info")
    first, second = map(violation_of, process.judge("a", "b"))
    assert (first.violation_level, first.user_message) == ("error", STOPPED)
    assert first.metadata == {"shield_id": "a", "where": "x"}
    assert (second.violation_level, second.user_message) == ("info", "own words")
    process.shields.unregister(LOCAL_CALLER, "b")
    process.register("b", user_message="Not here.")
    assert violation_of(process.judge("b")[0]).user_message == "Not here."


def test_a_failing_shield_blocks_by_default(store: SqliteRangeStore) -> None:
    process = Process(store, a=fails(ShieldFailed("no answer")), b=fails(ShieldFailed("no answer")))
    process.register("a")
    process.register("b", on_failure="allow", user_message="Not here.")
    closed, opened = map(violation_of, process.judge("a", "b"))
    assert (closed.violation_level, closed.user_message) == ("error", NOT_JUDGED)
    assert (opened.violation_level, opened.user_message) == ("warn", None)
    assert closed.metadata == {"shield_id": "a", "failure": "no answer"}
    assert opened.metadata == {"shield_id": "b", "failure": "no answer"}


def test_a_shield_that_takes_too_long_has_failed_and_is_cancelled(store: SqliteRangeStore) -> None:
    gate, signals = Gate(), []

    def silent(question: ShieldQuestion) -> Verdict:
        signals.append(question.stop)
        gate.pass_through()
        return Verdict()

    process = Process(store, a=silent)
    process.register("a", timeout_seconds=0.05)
    began = time.monotonic()
    (verdict,) = process.judge("a")
    assert 0.05 <= time.monotonic() - began < PATIENCE_S
    assert "too long" in violation_of(verdict).metadata["failure"]
    assert violation_of(verdict).violation_level == "error"
    assert signals[0].is_set
    gate.open()


def test_a_run_that_has_to_end_waits_for_no_shield(store: SqliteRangeStore) -> None:
    gates, stop = {"a": Gate(), "b": Gate()}, StopSignal()
    signals: dict[str, StopSignal | None] = {}

    def silent(name: str) -> Judges:
        def judge(question: ShieldQuestion) -> Verdict:
            signals[name] = question.stop
            gates[name].pass_through()
            return Verdict()

        return judge

    process = Process(store, a=silent("a"), b=silent("b"))
    for name in gates:
        process.register(name)
    question = ShieldQuestion(judged=QUESTION.judged, touchpoint="user-input", stop=stop)
    threading.Thread(target=lambda: (gates["a"].wait(), gates["b"].wait(), stop.set())).start()
    verdicts = process.judge("a", "b", question=question)
    assert [violation_of(verdict).violation_level for verdict in verdicts] == ["error", "error"]
    assert all(signal is not None and signal.is_set for signal in signals.values())
    for gate in gates.values():
        gate.open()


def test_closing_the_verdicts_cancels_the_other_shields(store: SqliteRangeStore) -> None:
    signals: list[StopSignal | None] = []
    gate = Gate()

    def silent(question: ShieldQuestion) -> Verdict:
        signals.append(question.stop)
        gate.pass_through()
        return Verdict()

    process = Process(store, a=lambda _: found(), b=silent)
    for name in "ab":
        process.register(name)
    with closing(process.shieldings.of(LOCAL_CALLER.tenant).judge(("a", "b"), QUESTION)) as verdicts:
        assert violation_of(next(verdicts)).user_message == "stopped"
        gate.wait()
    assert signals[0] is not None
    assert signals[0].is_set
    gate.open()


def test_a_mistake_of_ours_in_a_shield_is_no_verdict(store: SqliteRangeStore) -> None:
    process = Process(store, a=fails(ZeroDivisionError("ours")))
    process.register("a")
    with pytest.raises(ZeroDivisionError, match="ours"):
        process.judge("a")


def test_no_message_is_logged(store: SqliteRangeStore, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    process = Process(store, a=fails(ShieldFailed("no answer")))
    process.register("a")
    process.judge("a", question=ShieldQuestion(judged=(UserMessage(content="my secret"),), touchpoint="user-input"))
    assert "no answer" in caplog.text
    assert "secret" not in caplog.text


# ---- the shields of a tenant


def test_shields_of_several_names_are_read_at_once_and_cached_for_ten_seconds(store: SqliteRangeStore) -> None:
    process = Process(store, a=clean, b=clean)
    for name in "ab":
        process.register(name)
    for _ in range(3):
        process.judge("a", "b")
    assert process.reads == 1
    process.clock.advance(10)
    process.judge("a", "b")
    assert process.reads == 2


def test_a_missing_shield_is_read_every_time_and_fails_closed(store: SqliteRangeStore) -> None:
    process = Process(store, a=clean)
    for _ in range(2):
        assert violation_of(process.judge("a")[0]).violation_level == "error"
    process.register("a")
    assert process.judge("a") == [Verdict(shield_id="a")]
    process.shields.unregister(LOCAL_CALLER, "a")
    assert "no longer registered" in violation_of(process.judge("a")[0]).metadata["failure"]


def test_a_shield_belongs_to_one_tenant(store: SqliteRangeStore) -> None:
    process = Process(store, a=clean)
    process.register("a")
    process.judge("a")
    (verdict,) = process.shieldings.of("other").judge(("a",), QUESTION)
    assert "no longer registered" in violation_of(verdict).metadata["failure"]


def test_a_configured_shield_belongs_to_all_tenants_and_can_not_be_changed(store: SqliteRangeStore) -> None:
    ours = registered("ours")
    process = Process(store, {"ours": ours}, ours=clean, a=clean)
    process.register("a")
    assert [shield.identifier for shield in process.shields.list(LOCAL_CALLER)] == ["a", "ours"]
    assert process.shields.list(OTHER) == (ours,)
    assert process.shields.get(OTHER, "ours") == ours
    assert list(process.shieldings.of("other").judge(("ours",), QUESTION)) == [Verdict(shield_id="ours")]
    assert process.reads == 0
    process.register("ours")  # in the same words
    assert process.shields.list(LOCAL_CALLER)[1] == ours
    for change in (
        lambda: process.register("ours", on_failure="allow"),
        lambda: process.shields.unregister(LOCAL_CALLER, "ours"),
    ):
        with pytest.raises(InvalidRequest, match="comes with the server"):
            change()


@pytest.mark.parametrize("field", ["input_shields", "output_shields"])
def test_a_turn_that_names_no_shield_or_one_that_is_broken_is_refused_by_its_field(
    store: SqliteRangeStore, field: str
) -> None:
    process = Process(store, a=clean, b=clean)
    for name in "ab":
        process.register(name)
    del process.kinds.script["b"]
    for named in (["a", "nobody"], ["b"]):
        config = AgentConfig.model_validate({"model": "m", "instructions": "", field: named})
        with pytest.raises(InvalidRequest) as refused:
            process.shieldings.refuse_unusable(LOCAL_CALLER.tenant, config)
        assert refused.value.location == (field,)
        assert repr(named[-1]) in str(refused.value)
    config = AgentConfig.model_validate({"model": "m", "instructions": "", field: ["a"]})
    process.shieldings.refuse_unusable(LOCAL_CALLER.tenant, config)


@pytest.mark.parametrize("field", ["input_shields", "output_shields"])
def test_an_unregistered_shield_of_a_tool_is_refused_by_its_location(store: SqliteRangeStore, field: str) -> None:
    process = Process(store, a=clean)
    process.register("a")
    for name, location in (("a", None), ("nobody", ("tools", 1, field))):
        tools = [{"type": "photogen"}, {"type": "wolfram_alpha", field: [name]}]
        config = AgentConfig.model_validate({"model": "m", "instructions": "", "tools": tools})
        if location is None:
            process.shieldings.refuse_unusable(LOCAL_CALLER.tenant, config)
            continue
        with pytest.raises(InvalidRequest, match="there is no shield 'nobody'") as refused:
            process.shieldings.refuse_unusable(LOCAL_CALLER.tenant, config)
        assert refused.value.location == location


def test_a_turn_without_shields_reads_none(store: SqliteRangeStore) -> None:
    process = Process(store)
    process.shieldings.refuse_unusable(LOCAL_CALLER.tenant, AgentConfig(model="m", instructions=""))
    assert process.reads == 0


def test_a_shield_that_can_not_be_made_is_not_registered(store: SqliteRangeStore) -> None:
    process = Process(store)
    with pytest.raises(InvalidRequest):
        process.register("a")
    assert process.shields.list(LOCAL_CALLER) == ()


def test_a_shield_can_be_run_outside_of_turns(store: SqliteRangeStore) -> None:
    process = Process(store, a=lambda question: found() if question.touchpoint == "assistant-output" else Verdict())
    process.register("a")
    user, model = UserMessage(content="hello"), CompletionMessage(content="hi", stop_reason="end_of_turn")
    keys = ProviderData({"openai_api_key": "mine"})
    assert process.shields.run(LOCAL_CALLER, "a", (model, user), NO_PROVIDER_DATA) is None
    violation = process.shields.run(LOCAL_CALLER, "a", (user, model), keys)
    assert violation is not None
    assert violation.metadata["shield_id"] == "a"
    (_, first), (_, second) = process.kinds.questions
    assert (first.judged, first.before) == ((model, user), ())
    assert (second.judged, second.before) == ((model,), (user,))
    assert second.provider_data is keys
    with pytest.raises(NotFound, match="shield 'b' not found"):
        process.shields.run(LOCAL_CALLER, "b", (user,), NO_PROVIDER_DATA)


def test_a_shield_that_another_process_registered_is_found_at_once(store: SqliteRangeStore) -> None:
    process, other = Process(store, a=clean, b=clean), Process(store, a=clean, b=clean)
    other.register("a")
    assert process.judge("a") == [Verdict(shield_id="a")]
    other.register("b")
    assert process.judge("a", "b") == [Verdict(shield_id="a"), Verdict(shield_id="b")]


def test_the_model_of_a_shield_follows_the_tenant_s_routes(store: SqliteRangeStore) -> None:
    process = Process(store, guard=clean)
    guard = Shield(identifier="guard", provider_resource_id="guard-8b", provider_id=LLAMA_GUARD)
    with pytest.raises(InvalidRequest, match="no 'guard-8b' of local") as refused:
        process.shields.register(LOCAL_CALLER, guard, attempt())
    assert refused.value.location == ("provider_shield_id",)
    targets = (Target("one", "llama-guard"), Target("two", "guard"))
    process.models["guard-8b"] = ModelRoute("guard-8b", targets)
    process.shields.register(LOCAL_CALLER, guard, attempt())
    assert process.judge("guard") == [Verdict(shield_id="guard")]
    assert process.kinds.questions[0][1].targets == targets
    del process.models["guard-8b"]
    assert "no 'guard-8b'" in violation_of(process.judge("guard")[0]).metadata["failure"]


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


def test_an_exception_in_a_thread_is_raised_to_the_waiter() -> None:
    def broken() -> None:
        raise KeyboardInterrupt

    threads = DaemonThreads(1, "one")
    with pytest.raises(KeyboardInterrupt):
        threads.run(broken).result(PATIENCE_S)
    assert threads.run(lambda: 5).result(PATIENCE_S) == 5


def test_work_that_found_no_thread_is_done_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_pool_that_is_referred_to_nowhere_does_its_work_and_ends_its_threads() -> None:
    threads, gate = DaemonThreads(2, "forgotten", most_for_one=1), Gate()
    done = [threads.run(gate.pass_through, "a"), threads.run(lambda: None, "a"), threads.run(lambda: None, "b")]
    del threads
    gate.open()
    for future in done:
        future.result(PATIENCE_S)
    eventually(lambda: not [thread for thread in threading.enumerate() if thread.name == "forgotten"])


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


def test_work_that_was_cancelled_before_a_thread_was_free_is_skipped() -> None:
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
