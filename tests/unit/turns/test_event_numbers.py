"""The last event that a client has received, from the numbers in its request.

Covers: dialects/llama_stack/turns/event_numbers
"""

import pytest

from turnstone.dialects.llama_stack.turns.event_numbers import last_event_received
from turnstone.domain.errors import InvalidRequest


@pytest.mark.parametrize(
    ("after", "last_event_id", "expected"),
    [
        (None, None, 0),
        ("", "", 0),
        ("3", None, 3),
        (None, "4", 4),
        ("1", "4", 4),
        ("12", "4", 12),
        ("4", "12", 12),
        ("5", "5", 5),
    ],
)
def test_the_larger_of_both_numbers_is_the_last_received(
    after: str | None, last_event_id: str | None, expected: int
) -> None:
    query = {} if after is None else {"after": [after]}
    headers = {} if last_event_id is None else {"last-event-id": last_event_id}
    assert expected == last_event_received(query, headers)


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ({"after": ["-1"]}, {}),
        ({"after": ["1", "2"]}, {}),
        ({"after": ["9" * 16]}, {}),
        ({"after": ["²"]}, {}),
        ({"after": ["7"]}, {"last-event-id": "x"}),
        ({}, {"last-event-id": "1.5"}),
    ],
)
def test_a_text_that_is_not_the_number_of_an_event_is_refused(
    query: dict[str, list[str]], headers: dict[str, str]
) -> None:
    with pytest.raises(InvalidRequest):
        last_event_received(query, headers)
