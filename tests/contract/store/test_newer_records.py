"""A record that a newer version stored is an error of its own, stays as it is, and stops nothing else; in both stores.

Covers: store/layout/newer_records, store/layout/frames, store/layout/oversize, store/sessions/turn_records
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.cases import NIGHTLY
from tests.support.old_records.loaded import PATTERNS, Loaded, as_newer, loaded
from tests.support.old_records.rows import FORMATS, STORES, Fixture, Line, attributes_of, body_of, key_of, kinds_of
from tests.support.old_records.scene import CHAT, KEY, SETTINGS, read
from turnstone.domain.errors import RecordTooNew
from turnstone.domain.turns.lost_turns import NEWER

NEWEST = max(path.name for path in FORMATS.iterdir())
DAY_S = 86_400


class Case(NamedTuple):
    """A record to make newer.

    Attributes:
        kind: its kind of key.
        within: a part of its key, from the names of the fixture; default: any.
        attributes: of the newer record, in addition.
        refused: whether some read of it answers with the error.
        hides: whether it is left out of a list, or shown there as a notice.
    """

    kind: str
    within: str = ""
    attributes: tuple[tuple[str, Any], ...] = ()
    refused: bool = True
    hides: bool = False


CASES = (
    Case("agent", "agent"),
    Case("agent_list", refused=False, hides=True),
    Case("session_list", refused=False, hides=True),
    Case("session", "paused"),
    Case("session", "running", (("status", "sleeping"),)),
    Case("segment", "summed_up"),
    Case("turn", "paused", (("status", "sleeping"),)),
    Case("turn", "running"),
    Case("turn", "ended", hides=True),
    Case("step", "running"),
    Case("attachment", "running"),
    Case("completion", "small_chat", hides=True),
    Case("completion_list", "small_chat", refused=False, hides=True),
    Case("idempotency", refused=False),
    Case("api_key", refused=False),
    Case("api_key_list", refused=False),
    Case("job", refused=False),
    Case("registered", "models", refused=False),
    Case("directory", refused=True),
    Case("usage", "usage:2026-01-02", refused=False, hides=True),
)


class Newer(NamedTuple):
    old: Loaded
    case: Case
    record: Line


# what refuses a record is above the stores, so that each run tries some of the cases over DynamoDB
EACH_RUN = [*product(CASES, ["sqlite"]), *product(CASES[::4], ["dynamodb"])]


@pytest.fixture(
    params=[pytest.param(each, marks=() if each in EACH_RUN else NIGHTLY) for each in product(CASES, STORES)],
    ids=lambda each: f"{each[0].kind}-{each[0].within or 'any'}-{each[1]}",
)
def newer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Newer]:
    case, store = request.param
    made: list[Line] = []

    def changed(held: Fixture) -> Fixture:
        part = held.names.get(case.within, case.within).rpartition("/")[2]
        of_kind = kinds_of(held.records, PATTERNS)[case.kind]
        chosen = next(record for record in of_kind if part in record["pk"] + record["sk"])
        made.append(as_newer(chosen, held, **dict(case.attributes)))
        return held._replace(records=tuple(made[0] if each is chosen else each for each in held.records))

    with loaded(NEWEST, store, tmp_path, changed) as old:
        yield Newer(old, case, made[0])


def code_in(body: str | bytes) -> str:
    """Return the code of an error, in either envelope."""
    values = json.loads(body)
    code: str = values.get("code") or values["error"]["code"]
    return code


def stored(newer: Newer) -> Line:
    (found,) = [record for record in newer.old.records() if key_of(record) == key_of(newer.record)]
    return found


def work(newer: Newer) -> None:
    """Sweep, and run each due job."""
    core = newer.old.world.process._server.core
    core.sweeper.sweep(newer.old.world.clock.now() + timedelta(minutes=5))
    newer.old.world.settle()
    for _ in range(10):
        for job in core.cleaning.due():
            with suppress(RecordTooNew):
                core.cleaning.run_for(job, timedelta(0))


def test_reads_refuse_it_alone_and_nothing_changes_it(newer: Newer) -> None:
    world, held, case = newer.old.world, newer.old.held, newer.case
    world.serve(model_url=world.model(newer.old.model), **SETTINGS)
    differing = [now for before in held.answers if (now := read(world, before.path)) != before]
    refused = [now for now in differing if now.status != 200]
    for answer in refused:
        assert (answer.status, code_in(answer.body)) == (500, "record_too_new"), answer
        assert "newer version of Turnstone (format 2)" in answer.body
    assert bool(refused) is case.refused, refused
    assert not case.hides or any(now.status == 200 for now in differing)
    assert len(differing) < len(held.answers) / 3, [now.path for now in differing]
    for _ in range(3):
        world.pass_time(DAY_S)
        work(newer)
    now = stored(newer)
    assert body_of(now) == body_of(newer.record)
    assert attributes_of(now) == attributes_of(newer.record)
    made = world.turn(world.session(), "hello")
    if case.kind == "directory":  # a turn needs the registry
        assert code_in(made.body) == "record_too_new"
    else:
        assert made.json()["output_message"]["content"] == "Hello."


def in_folder(folder: Path, changed: Any) -> Any:
    return loaded(NEWEST, "sqlite", folder, changed)


def with_newer(kind: str, part: str, **attributes: Any) -> Any:
    def changed(held: Fixture) -> Fixture:
        name = held.names.get(part, part).rpartition("/")[2]
        chosen = [each for each in kinds_of(held.records, PATTERNS)[kind] if name in each["pk"] + each["sk"]]
        return held._replace(
            records=tuple(as_newer(each, held, **attributes) if each in chosen else each for each in held.records)
        )

    return changed


def test_a_session_shows_its_other_turns_and_a_notice(tmp_path: Path) -> None:
    with in_folder(tmp_path, with_newer("turn", "paused", status="sleeping")) as old:
        world, names = old.world.serve(model_url=old.world.model(old.model)), old.held.names
        (turn,) = world.get(names["paused"])["turns"]
        assert (turn["turn_id"], turn["output_message"]["content"]) == (names["paused_turn"], NEWER)
        assert "lost_turns" not in world.get(names["paused"])
        path = f"{names['paused']}/turn/{names['paused_turn']}"
        for method, target, body in (
            ("GET", path, None),
            ("GET", f"{path}/events", None),
            ("POST", f"{path}/cancel", {}),
            (
                "POST",
                f"{path}/resume",
                {"tool_responses": [{"call_id": "c", "tool_name": "get_weather", "content": "rain"}], "stream": False},
            ),
        ):
            answer = world.send(method, target, body)
            assert (answer.status, code_in(answer.body)) == (500, "record_too_new"), (method, target)
            assert answer.headers["x-should-retry"] == "false"


def test_a_repeated_request_is_refused_where_its_answer_is_too_new(tmp_path: Path) -> None:
    with in_folder(tmp_path, with_newer("idempotency", "local|idempotency")) as old:
        world = old.world.serve(model_url=old.world.model(old.model))
        agent = {"agent_config": {"model": "stub-llm", "instructions": "Be brief.", "name": "once"}}
        answer = world.send("POST", "/v1/agents", agent, idempotency_key=KEY)
        assert (answer.status, code_in(answer.body)) == (500, "record_too_new")
        assert world.send("POST", "/v1/agents", agent, idempotency_key="another").status == 200


def test_a_key_that_is_too_new_is_refused_and_other_keys_are_not(tmp_path: Path) -> None:
    with in_folder(tmp_path, with_newer("api_key", "apikey")) as old:
        world = old.world.serve(model_url=old.world.model(old.model), auth="api_keys")
        world.token("ann", old.held.names["ann"])
        world.key("bob", "acme")
        assert code_in(world.send("GET", "/v1/agents", sender="ann").body) == "record_too_new"
        assert world.send("GET", "/v1/agents", sender="bob").status == 200


def test_a_session_is_deleted_with_its_newer_turns_and_a_newer_session_is_not(tmp_path: Path) -> None:
    with in_folder(tmp_path, with_newer("turn", "ended")) as old:
        world, names = old.world.serve(model_url=old.world.model(old.model)), old.held.names
        assert world.send("DELETE", names["ended"]).status == 204
        assert world.send("GET", names["ended"]).status == 404
    (tmp_path / "other").mkdir()
    with in_folder(tmp_path / "other", with_newer("session", "ended")) as old:
        world, names = old.world.serve(model_url=old.world.model(old.model)), old.held.names
        assert world.send("DELETE", names["ended"]).json()["code"] == "record_too_new"


def test_an_agent_is_deleted_but_for_a_session_whose_entry_is_too_new(tmp_path: Path) -> None:
    with in_folder(tmp_path, with_newer("session_list", "agent")) as old:
        world, names = old.world.serve(model_url=old.world.model(old.model)), old.held.names
        world.session(names["agent"])
        assert world.send("DELETE", f"/v1/agents/{names['agent']}").status == 204
        work(Newer(old, CASES[0], {}))
        left = [key_of(record) for record in old.records() if f"session:{names['agent']}" in record["pk"]]
        assert {sk.partition(":")[0] for _, sk in left if ":" in sk} == {"ctx", "turn", "step", "idempotency"}
        assert len([sk for pk, sk in left if pk == f"local|session:{names['agent']}"]) == 1


def test_the_sweep_logs_one_line_and_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with in_folder(tmp_path, with_newer("turn", "running")) as old:
        world = old.world.serve(model_url=old.world.model(old.model))
        world.pass_time(2 * DAY_S)
        swept = world.process._server.core.sweeper.sweep(world.clock.now() + timedelta(minutes=5))
        assert (swept.failed, swept.ended) == (1, 1)
        lines = [each.getMessage() for each in caplog.records if "not reconciled" in each.getMessage()]
        assert [("newer version" in line) for line in lines] == [True]
        assert not any(each.exc_info for each in caplog.records)


@pytest.mark.parametrize("codec", ["zstd", "zstd+blob"])
def test_an_unrecognised_codec_is_a_newer_format(codec: str, tmp_path: Path) -> None:
    def changed(held: Fixture) -> Fixture:
        part = held.names["ended"].rpartition("/")[2]
        records = [
            {**each, "attributes": {**each["attributes"], "codec": codec}}
            if part in each["pk"] and each["attributes"].get("codec") == "zlib" and each["sk"].startswith("turn:")
            else each
            for each in held.records
        ]
        return held._replace(records=tuple(records))

    with in_folder(tmp_path, changed) as old:
        world, names = old.world.serve(model_url=old.world.model(old.model)), old.held.names
        turns = world.get(names["ended"])["turns"]
        notices = [turn for turn in turns if turn["output_message"]["content"] == NEWER]
        assert (len(turns), len(notices)) == (7, 6)
        path = f"{names['ended']}/turn/{notices[0]['turn_id']}"
        assert f"(format {codec})" in world.get(path)["detail"]
        assert world.send("GET", CHAT).status == 200
