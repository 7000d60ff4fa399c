"""Templates of queries: their values, their refusals, and the bounds of their work.

Covers: domain/memory/query_templates
"""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstone.domain.memory.query_templates import (
    MOST_OUTPUT_CHARACTERS,
    MOST_TEMPLATE_CHARACTERS,
    TooMuchWork,
    parsed_template,
)

MESSAGES = [{"role": "user", "content": "Where do knots breed?"}, {"role": "assistant", "content": "In the north."}]
VALUES: dict[str, Any] = {"messages": MESSAGES, "question": "Where?", "empty": [], "n": 3, "yes": True}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("Find: {{ question }}.", "Find: Where?."),
        ("{{question}}{{ n }}{{ yes }}{{ missing }}{{ missing.deep[3] }}", "Where?3true"),
        ("{{ messages[0].role }} {{ messages[-1]['content'] }} {{ messages[9] }}", "user In the north. "),
        ('{{ messages[0]["role"] }}', "user"),
        ("{{ empty }} {{ messages[0] }}", '[] {"role":"user","content":"Where do knots breed?"}'),
        ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", "user: Where do knots breed?\n"
         "assistant: In the north.\n"),
        ("{% for m in messages -%}\n  {{ m.role }},\n{%- endfor %}", "user,assistant,"),
        ("{% for m in missing %}x{% endfor %}{% for c in question %}y{% endfor %}", ""),
        ("{% for name in messages[0] %}{{ name }} {% endfor %}", "role content "),
        ("{% if empty %}a{% else %}b{% endif %}{% if not empty %}c{% endif %}", "bc"),
        ('{% if messages[0].role == "user" %}a{% endif %}{% if n != missing %}b{% endif %}', "ab"),
        ("{% if question == messages[0].content %}a{% else %}b{% endif %}", "b"),
        ("{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}",
         "Where do knots breed?"),
        ("a{# {{ not }} read #}b", "ab"),
        ("{ {x} } % {", "{ {x} } % {"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_template_shows_values_of_paths(template: str, text: str) -> None:
    assert parsed_template(template).rendered(VALUES) == text


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("{{ question | upper }}", "question | upper"),
        ("{{ question.upper() }}", "upper()"),
        ("{{ 7 * 7 }}", "7 * 7"),
        ("{{ }}", "{{"),
        ("{{ question", "no end }}"),
        ("{% for m in messages %}", "endfor"),
        ("{% if question %}x", "endif"),
        ("{% if question %}a{% else %}b{% else %}c{% endif %}", "else"),
        ("{% endfor %}", "endfor"),
        ("{% for in messages %}{% endfor %}", "for in"),
        ("{% for m in range(9) %}{% endfor %}", "range(9)"),
        ("{% include 'secrets' %}", "include"),
        ("{% set x = 1 %}", "set x"),
        ("{% if " * 3, "no end"),
        ("{% if n %}" * 9 + "{% endif %}" * 9, "8 deep"),
        ("{% for a in messages %}" * 3 + "{% endfor %}" * 3, "2 deep"),
        ("x" * (MOST_TEMPLATE_CHARACTERS + 1), "characters"),
    ],
)
def test_a_tag_outside_the_syntax_is_refused_by_name(template: str, shown: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        parsed_template(template)
    assert shown in str(refused.value)


@pytest.mark.parametrize(
    "template",
    [
        "{% for a in messages %}{% for b in messages %}{{ a }}{% endfor %}{% endfor %}",
        "{% for a in messages %}{% for b in messages %}{% endfor %}{% endfor %}",
        "{% for a in messages %}{{ messages }}{% endfor %}",
        "{{ messages }}" * 1_000,
        "{% for a in messages %}" + "{% if a %}x{% endif %}" * 500 + "{% endfor %}",
    ],
)
def test_nested_loops_end_within_their_bounds(template: str) -> None:
    messages = [{"role": "user", "content": "x" * 20} for _ in range(1_000)]
    parsed = parsed_template(template)
    began = time.thread_time()
    with pytest.raises(TooMuchWork):
        parsed.rendered({"messages": messages})
    assert time.thread_time() - began < 0.05


PIECES = st.sampled_from(
    ["{{", "}}", "{%", "%}", "{#", "#}", " for ", "m in ", "messages", "endfor", "if ", "else", "endif", "[0]", ".role",
     " ", "-", "==", "'x'", "not ", "text"]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_any_text_is_a_template_or_refused(text: str) -> None:
    try:
        template = parsed_template(text)
    except ValueError:
        return
    assert len(template.rendered(VALUES)) <= MOST_OUTPUT_CHARACTERS
