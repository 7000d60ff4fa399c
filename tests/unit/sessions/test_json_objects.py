"""JSON that is written in parts is the JSON of the whole.

Covers: dialects/json_objects
"""

from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from turnstone.dialects.json_objects import after_entries, before_entries, with_fields

FIELDS = st.dictionaries(st.text(max_size=5), st.none() | st.integers(0, 9) | st.text(max_size=5), max_size=3)


@given(FIELDS, st.lists(st.integers(0, 9) | st.text(max_size=5), max_size=3), FIELDS)
def test_an_object_around_its_entries_is_the_object(
    before: dict[str, object], entries: list[object], after: dict[str, object]
) -> None:
    before = {f"before {name}": value for name, value in before.items()}
    after = {f"after {name}": value for name, value in after.items()}
    parts = before_entries(before, "data") + b",".join(map(to_json, entries)) + after_entries(after)
    assert parts == to_json({**before, "data": entries, **after})


@given(FIELDS, FIELDS)
def test_an_object_with_further_fields_is_one_object(first: dict[str, object], second: dict[str, object]) -> None:
    first = {"id": 1, **{f"first {name}": value for name, value in first.items()}}
    second = {"metadata": {}, **{f"second {name}": value for name, value in second.items()}}
    assert with_fields(to_json(first), second) == to_json({**first, **second})
