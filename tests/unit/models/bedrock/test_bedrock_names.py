"""Names that Bedrock takes, as aliases of those that it does not.

Covers: adapters/models/bedrock/bedrock_names
"""

import re
import string

from hypothesis import given
from hypothesis import strategies as st

from turnstone.adapters.models.bedrock.bedrock_names import Aliases

TAKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")
# few letters, so that many names become similar
NAMES = st.lists(st.text("ab_.:/ü ", max_size=4) | st.text(max_size=80) | st.sampled_from(["a" * 64, "a" * 65]))


@given(NAMES)
def test_every_name_has_an_alias_that_bedrock_takes_and_is_found_again(names: list[str]) -> None:
    aliases = Aliases()
    aliased = {name: aliases.alias_of(name) for name in names}
    assert all(TAKEN.fullmatch(alias) for alias in aliased.values())
    assert {aliases.name_of(alias): alias for alias in aliased.values()} == aliased
    assert {name: aliases.alias_of(name) for name in reversed(names)} == aliased


@given(NAMES, NAMES)
def test_the_alias_of_a_name_does_not_depend_on_later_names(names: list[str], later: list[str]) -> None:
    short, long = Aliases(), Aliases()
    aliased = [short.alias_of(name) for name in names]
    assert [long.alias_of(name) for name in (*names, *later)][: len(names)] == aliased


@given(st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=64))
def test_a_name_that_bedrock_takes_keeps_itself(name: str) -> None:
    assert Aliases().alias_of(name) == name


def test_similar_names_have_distinct_readable_aliases() -> None:
    aliases = Aliases()
    first, second, third = (aliases.alias_of(name) for name in ("mcp/find", "mcp.find", "mcp_find"))
    assert first == "mcp_find"
    assert second.startswith("mcp_find_")
    assert third.startswith("mcp_find_")
    assert len({first, second, third}) == 3


def test_a_name_that_equals_anothers_alias_has_one_of_its_own() -> None:
    earlier = Aliases()
    alike = [earlier.alias_of(name) for name in ("a.b", "a/b")][1]
    aliases = Aliases()
    assert len({aliases.alias_of(name) for name in ("a.b", alike, "a/b")}) == 3


def test_a_name_without_an_alias_is_itself() -> None:
    assert Aliases().name_of("invented") == "invented"
