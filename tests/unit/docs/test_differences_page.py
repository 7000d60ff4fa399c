"""The page of differences from Llama Stack is the one that the recorded reasons generate.

Covers: tests/beside/reasons
"""

from __future__ import annotations

from tests.beside.reasons import reference
from tests.docs.pages import page

PAGE = "docs/reference/llama-stack-differences.md"


def test_the_page_is_the_generated_one() -> None:
    assert page(PAGE).text == reference(), "the reasons have changed: make docs"
