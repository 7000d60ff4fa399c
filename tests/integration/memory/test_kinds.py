"""Banks of keys and values, and of edges, over either store: queries see whole documents, each in one state.

Covers: services/memory/documents/document_records, services/memory/documents/values, services/memory/documents/graphs,
services/memory/documents/edge_making, services/memory/recalling, store/memory/values, store/memory/edges,
store/memory/insertions, domain/memory/texts/edges, domain/memory/names
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from tests.support.engine.either_store import Make
from tests.support.engine.harness import ProcessDied, Server, StoreCall
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import InvalidRequest, ModelFailed, NotFound
from turnstone.domain.memory.banks import BankKind, BankRef, NewBank
from turnstone.domain.memory.documents import DocumentQuery, NewDocument, TextDocument
from turnstone.domain.memory.filters import parsed
from turnstone.domain.memory.questions import BankQuestion, Hit
from turnstone.domain.memory.texts.chunking import count_tokens
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.records import Range
from turnstone.services.memory.documents import graphs
from turnstone.services.memory.recalling import RecalledBank
from turnstone.store.memory import values

BANK = "shore"
FIRST = Attempt(fingerprint="body")
CYCLE = [("Tern", "eats", "Shrimp"), ("Shrimp", "eats", "Alga"), ("Alga", "feeds", "Snail"), ("Snail", "flees", "Tern")]


def opened(make: Make, kind: BankKind, bank: str = BANK, script: Sequence[str] = (), **settings: Any) -> Server:
    server = make(*script, **settings)
    model = "scripted" if kind == "vector" else None
    server.core.banks.register(LOCAL_CALLER, NewBank(bank, kind, model), NO_PROVIDER_DATA, FIRST)
    return server


def inserted(server: Server, document_id: str, text: str, mime: str = "text/plain", **attributes: Any) -> None:
    given = TextDocument(NewDocument(document_id, attributes, mime), text)
    server.core.documents.insert(LOCAL_CALLER, BANK, [given], NO_PROVIDER_DATA, FIRST)


def linked(server: Server, document_id: str, edges: Sequence[tuple[str, ...]], **attributes: Any) -> None:
    named = [dict(zip(("subject", "relation", "object", "text"), edge, strict=False)) for edge in edges]
    inserted(server, document_id, json.dumps(named), **attributes)
    server.clock.advance(0.001)  # type: ignore[attr-defined] # in tests it is a fake


def recalled(server: Server, text: str = "", filters: Any = None, limit: int = 500, **options: Any) -> list[Hit]:
    kept = None if filters is None else parsed(filters, ("filters",))
    bank = RecalledBank(server.core.banks.visible(LOCAL_CALLER, BANK), **options)
    question = BankQuestion(text, None, max_chunks=limit, filters=kept)
    return list(server.core.recalling.recall(LOCAL_CALLER, [bank], question, NO_PROVIDER_DATA))


def texts(hits: Sequence[Hit]) -> list[str]:
    return [hit.chunk.text for hit in hits]


def content_of(server: Server, *prefixes: str) -> list[str]:
    ref = BankRef(LOCAL_CALLER.tenant, server.core.banks.visible(LOCAL_CALLER, BANK).content_id, BANK)
    records = server.records.range(Range(f"{ref.tenant}|bank:{ref.content_id}")).records
    return [record.key.sk for record in records if record.key.sk.startswith(prefixes)]


def done_jobs(server: Server) -> None:
    for _ in range(2):
        server.clock.advance(180)  # type: ignore[attr-defined] # in tests it is a fake
        for job in server.core.cleaning.due():
            server.core.cleaning.run_for(job, timedelta(hours=1))
    assert server.core.cleaning.due() == ()


def writes_edges(call: StoreCall) -> bool:
    return any(each.key.sk.startswith("out:") for each in call.operations)


# ---- keys and values


def test_values_come_in_the_order_of_the_keys_without_missing_ones(both: Make) -> None:
    server, other = opened(both, "keyvalue"), both()
    inserted(server, "colour", "grey")
    inserted(server, "legs", '{"count": 2}', "application/json")
    inserted(server, "Home Range", "Arctic")
    assert texts(recalled(other, keys=["legs", "wings", "colour", "legs"])) == ['{"count": 2}', "grey"]
    assert texts(recalled(other, "Which COLOUR, and what home range?", keys=[])) == ["grey"]
    assert texts(recalled(other, "its Home Range, its colour")) == ["Arctic", "grey"]
    assert recalled(other, "nothing of that", keys=["wings"]) == []
    assert [hit.score for hit in recalled(other, "legs")] == [1.0]


def test_a_value_is_replaced_dropped_and_filtered(both: Make) -> None:
    server = opened(both, "keyvalue")
    documents = server.core.documents
    inserted(server, "colour", "grey", year=2023)
    inserted(server, "colour", "red", year=2024)
    documents.set_attributes(LOCAL_CALLER, BANK, "colour", {"year": 2025})
    assert recalled(server, keys=["colour"], filters={"type": "eq", "key": "year", "value": 2024}) == []
    assert texts(recalled(server, keys=["colour"], filters={"type": "eq", "key": "year", "value": 2025})) == ["red"]
    (chunk,) = documents.chunks(LOCAL_CALLER, BANK, "colour")
    assert (chunk.text, documents.get(LOCAL_CALLER, BANK, "colour").chunks) == ("red", 1)
    documents.drop(LOCAL_CALLER, BANK, "colour")
    assert recalled(server, keys=["colour"]) == []
    assert content_of(server, "kv:", "doc:", "named:") == []


def test_a_long_value_is_whole_and_leaves_nothing_when_it_is_replaced(
    both: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "LONG_BYTES", 64)
    monkeypatch.setattr("turnstone.services.memory.documents.values.LONG_BYTES", 64)
    server = opened(both, "keyvalue")
    for number in range(3):
        inserted(server, "song", f"tern {number} " * 100)
        assert texts(recalled(server, keys=["song"])) == [f"tern {number} " * 100]
    server.core.documents.set_attributes(LOCAL_CALLER, BANK, "song", {"kept": True})
    done_jobs(server)
    assert texts(recalled(server, keys=["song"])) == ["tern 2 " * 100]
    assert len(content_of(server, "value:")) == 1
    inserted(server, "song", "short")
    done_jobs(server)
    assert content_of(server, "value:") == []
    assert texts(recalled(server, keys=["song"])) == ["short"]


def test_json_that_is_none_is_refused_by_its_field(make: Make) -> None:
    server = opened(make, "keyvalue")
    with pytest.raises(InvalidRequest, match=r"documents\.0\.content: must be JSON"):
        inserted(server, "a", "{", "application/json")
    assert server.core.documents.list(LOCAL_CALLER, BANK, DocumentQuery(9)).documents == ()


# ---- graphs


def test_a_walk_finds_the_nearest_edges_first_and_a_cycle_once(both: Make) -> None:
    server, other = opened(both, "graph"), both()
    linked(server, "food", CYCLE)
    linked(server, "far", [("Fox", "hunts", "Snail"), ("Owl", "hunts", "Fox", "An owl hunts foxes at night.")])
    near = ["Tern eats Shrimp.", "Snail flees Tern."]
    assert texts(recalled(other, entities=["tern"], depth=1)) == near
    assert texts(recalled(other, entities=["Tern"], depth=2)) == [
        *near,
        "Shrimp eats Alga.",
        "Alga feeds Snail.",
        "Fox hunts Snail.",
    ]
    around_two = texts(recalled(other, entities=["Tern", "shrimp"], depth=2))
    assert around_two == [*near, "Shrimp eats Alga.", "Alga feeds Snail.", "Fox hunts Snail."]
    hits = recalled(other, entities=["Tern", "shrimp"], depth=3)
    assert texts(hits)[-1] == "An owl hunts foxes at night."
    assert [hit.score for hit in hits] == [1, 1, 1, 0.5, 0.5, 1 / 3]
    assert len({hit.chunk.chunk_id for hit in hits}) == 6


def test_a_question_names_the_entities(make: Make) -> None:
    server = opened(make, "graph")
    linked(server, "a", [("Arctic  tern", "nests in", "北極圏"), ("Knot", "is", "a word")])
    assert texts(recalled(server, "Where does the ARCTIC TERN nest?", depth=1)) == ["Arctic  tern nests in 北極圏."]
    assert texts(recalled(server, "何が北極圏に住む?", depth=1)) == ["Arctic  tern nests in 北極圏."]
    assert recalled(server, "And whales?", depth=3) == []


def test_a_long_question_names_its_single_words_first(make: Make) -> None:
    server = opened(make, "graph")
    linked(server, "a", [("Tern", "eats", "Shrimp")])
    question = "word " * 5 + " ".join(f"w{number}" for number in range(30)) + " tern " + "x" * 10_000
    assert texts(recalled(server, question)) == ["Tern eats Shrimp."]


def test_edges_appear_and_disappear_with_their_document(both: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "WRITTEN_AT_ONCE", 6)
    server = opened(both, "graph")
    for size in (2, 9, 9, 3, 8):
        edges = [("Tern", f"knows {size}", f"bird {number}") for number in range(size)]
        linked(server, "a", edges, size=size)
        kept = {"type": "eq", "key": "size", "value": size}
        found = recalled(server, entities=["tern"], depth=1, filters=kept)
        assert sorted(texts(found)) == sorted(f"Tern knows {size} bird {number}." for number in range(size))
        assert len(recalled(server, entities=["tern"], depth=1)) == size
        assert texts(recalled(server, entities=[f"bird {size - 1}"], depth=1)) == [
            f"Tern knows {size} bird {size - 1}."
        ]
    server.core.documents.set_attributes(LOCAL_CALLER, BANK, "a", {"size": 1})
    assert recalled(server, entities=["tern"], filters={"type": "gt", "key": "size", "value": 1}) == []
    assert len(server.core.documents.chunks(LOCAL_CALLER, BANK, "a")) == 8
    done_jobs(server)
    assert len(content_of(server, "out:", "in:")) == 16
    assert len(content_of(server, "edges:")) == 1
    server.core.documents.drop(LOCAL_CALLER, BANK, "a")
    assert recalled(server, entities=["tern"]) == []
    done_jobs(server)
    assert content_of(server, "out:", "in:", "edges:", "state:", "doc:", "named:") == []


def test_a_process_that_dies_at_any_write_leaves_the_edges_of_one_insertion(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "WRITTEN_AT_ONCE", 4)
    opened(make, "graph")
    old = [("Tern", "eats", f"shrimp {number}") for number in range(3)]
    new = [("Tern", "hates", f"gull {number}") for number in range(5)]
    acts: Sequence[Callable[[Server], object]] = (
        lambda server: linked(server, "a", new),
        lambda server: server.core.documents.drop(LOCAL_CALLER, BANK, "a"),
    )
    for act in acts:
        for death in count(1):
            server, is_over = make(), False
            linked(server, "a", old)
            dying, calls = make(), count(1)

            def is_last(call: StoreCall, calls: Iterator[int] = calls, at: int = death) -> bool:
                return call.verb == "write" and next(calls) == at

            dying.store.after(is_last, dying.store.die)
            try:
                act(dying)
                is_over = True
            except ProcessDied:
                pass
            found = len(recalled(make(), entities=["tern"], depth=1))
            stored = make().core.documents.list(LOCAL_CALLER, BANK, DocumentQuery(9)).documents
            assert found == sum(each.chunks for each in stored)
            assert found in (0, 3, 5)
            done_jobs(make())
            assert len(content_of(server, "out:", "in:")) == 2 * found
            assert len(recalled(make(), entities=["tern"], depth=1)) == found
            if is_over:
                break
        assert death > 1


def test_a_writer_slower_than_the_clean_up_stores_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "WRITTEN_AT_ONCE", 4)
    slow, other = opened(make, "graph"), make()
    turns = count()

    def stalls(call: StoreCall) -> bool:
        return (
            call.verb == "write"
            and any(each.key.sk.startswith("out:") for each in call.operations)
            and next(turns) == 1
        )

    slow.store.before(stalls, lambda: done_jobs(other))
    linked(slow, "a", [("Tern", "hates", f"gull {number}") for number in range(5)])
    assert recalled(other, entities=["tern"]) == []
    assert other.core.documents.get(LOCAL_CALLER, BANK, "a").status == "in_progress"
    linked(other, "a", [("Tern", "hates", "gulls")])
    assert texts(recalled(other, entities=["tern"])) == ["Tern hates gulls."]


def test_parallel_writers_of_documents_never_conflict(make: Make) -> None:
    server = opened(make, "graph")

    def work(number: int) -> None:
        for part in range(3):
            linked(server, f"own {number} {part}", [("Tern", "knows", f"{number} {part}")])
            linked(server, "shared", [("Knot", "knows", f"{number} {part}")])

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert len(recalled(server, entities=["tern"], depth=1)) == 18
    assert len(recalled(server, entities=["knot"], depth=1)) == 1


@pytest.mark.parametrize(
    ("text", "mime", "problem"),
    [
        ("Terns eat shrimps.", "text/plain", "no model that reads edges"),
        ("{", "application/json", "line 1 is no JSON"),
        ('[{"subject": "a", "relation": "b"}]', "text/plain", "edge 0: 'object' must be a text"),
        ('[{"subject": "a", "relation": "b", "object": "c", "when": 1}]', "text/plain", "edge 0 has 'when'"),
        ('{"subject": " ", "relation": "b", "object": "c"}', "application/x-ndjson", "edge 0: 'subject'"),
        ("[1]", "application/json", "edge 0 is no object"),
        ("[" * 100_000, "application/json", "edge|JSON|deep"),
    ],
)
def test_a_document_without_edges_is_refused_by_its_field(make: Make, text: str, mime: str, problem: str) -> None:
    server = opened(make, "graph")
    with pytest.raises(InvalidRequest, match=problem) as refusal:
        inserted(server, "a", text, mime)
    assert str(refusal.value).startswith("documents.0.content: ")
    assert content_of(server, "doc:", "edges:") == []


def test_lines_and_objects_of_edges_are_the_same_as_a_list(make: Make) -> None:
    server = opened(make, "graph")
    edges = [{"subject": "Tern", "relation": "eats", "object": name} for name in ("shrimp", "fish", "fish")]
    for mime, text in (
        ("application/x-ndjson", "\n".join(json.dumps(edge) for edge in edges)),
        ("application/json", json.dumps({"edges": edges})),
        ("text/plain", json.dumps(edges)),
    ):
        inserted(server, "a", text, mime)
        assert texts(recalled(server, entities=["tern"])) == ["Tern eats shrimp.", "Tern eats fish."]


def test_a_model_reads_the_edges_of_texts(make: Make) -> None:
    lines = '{"subject": "Tern", "relation": "eats", "object": "shrimp"}\nSure:\n{"subject": "Tern"}'
    server = opened(make, "graph", graph_model="scripted", script=(lines, "", "no edges at all", lines))
    inserted(server, "a", "Terns eat shrimp.")
    assert texts(recalled(server, entities=["tern"])) == ["Tern eats shrimp."]
    inserted(server, "a", "Nothing of interest.")
    assert recalled(server, entities=["tern"]) == []
    with pytest.raises(ModelFailed, match="without edges"):
        inserted(server, "b", "Knots eat clams.")
    with pytest.raises(InvalidRequest, match=r"at most 32 chunks, not \d+; split the document"):
        inserted(server, "b", "clam " * 512 * 31)
    inserted(server, "b", "[Terns] eat shrimp.")
    assert [hit.chunk.document_id for hit in recalled(server, entities=["tern"])] == ["b"]


# ---- several banks


def test_banks_of_all_kinds_answer_together_within_the_limits(both: Make) -> None:
    server = opened(both, "keyvalue")
    inserted(server, "colour", "grey tern")
    edges = json.dumps([{"subject": "Tern", "relation": "is a", "object": "bird"}])
    kinds: Sequence[tuple[BankKind, str]] = (("vector", "tern v"), ("keyword", "tern k"), ("graph", edges))
    for kind, text in kinds:
        new = NewBank(kind, kind, "scripted" if kind == "vector" else None)
        server.core.banks.register(LOCAL_CALLER, new, NO_PROVIDER_DATA, FIRST)
        given = [TextDocument(NewDocument("a"), text)]
        server.core.documents.insert(LOCAL_CALLER, kind, given, NO_PROVIDER_DATA, FIRST)
    names = (BANK, "vector", "graph", "keyword")
    banks = [RecalledBank(server.core.banks.visible(LOCAL_CALLER, name), keys=["colour"]) for name in names]

    def found(**limits: Any) -> list[tuple[str, str]]:
        question = BankQuestion("tern", None, **limits)
        hits = server.core.recalling.recall(LOCAL_CALLER, banks, question, NO_PROVIDER_DATA)
        return [(hit.bank_id, hit.chunk.text) for hit in hits]

    everything = found()
    assert everything[0] == (BANK, "grey tern")
    assert ("graph", "Tern is a bird.") in everything[1:3]
    assert {bank for bank, _ in everything} == {BANK, "vector", "graph", "keyword"}
    assert found(max_chunks=2) == everything[:2]
    tokens = [count_tokens(text) for _, text in everything]
    for most in range(sum(tokens) + 2):
        assert len(found(max_tokens=most)) == sum(sum(tokens[: at + 1]) <= most for at in range(len(tokens)))


def test_a_deleted_bank_is_no_bank_of_a_query(make: Make) -> None:
    server = opened(make, "keyword")
    bank = RecalledBank(server.core.banks.visible(LOCAL_CALLER, BANK))
    server.core.banks.delete(LOCAL_CALLER, BANK)
    with pytest.raises(NotFound):
        server.core.recalling.recall(LOCAL_CALLER, [bank], BankQuestion("tern", None), NO_PROVIDER_DATA)


@pytest.mark.parametrize("question", ["the of and", "渡り鳥", "鳥", "??", "\u0000", "x" * 50_000])
def test_a_keyword_bank_takes_any_question(make: Make, question: str) -> None:
    server = opened(make, "keyword")
    inserted(server, "a", "the tern of the shore and the sea")
    inserted(server, "b", "渡り鳥は北へ")
    expected = {
        "the of and": ["the tern of the shore and the sea"],
        "渡り鳥": ["渡り鳥は北へ"],
        "鳥": ["渡り鳥は北へ"],
    }.get(question, [])
    assert texts(recalled(server, question)) == expected
