"""Access to a resource: the owner always has it, a reader needs a match in every category that is named.

Covers: services/access/access
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstone.domain.access.access import AccessAttributes, Ownership, may_delete, may_see, owner_of
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import Forbidden, NotFound
from turnstone.services.access.access import AccessRules

GROUPS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3, unique=True).map(tuple)
CALLERS = st.builds(
    Caller,
    tenant=st.just("t"),
    principal=st.sampled_from(["ann", "bob"]),
    roles=GROUPS,
    teams=GROUPS,
    projects=GROUPS,
    namespaces=GROUPS,
)
CATEGORIES = ("roles", "teams", "projects", "namespaces")


@given(owner=CALLERS, reader=CALLERS, owner_only=st.booleans())
def test_a_reader_needs_a_match_in_every_category_that_is_named(
    owner: Caller, reader: Caller, owner_only: bool
) -> None:
    named = [name for name in CATEGORIES if getattr(owner, name)]
    matches = all(set(getattr(owner, name)) & set(getattr(reader, name)) for name in named)
    expected = reader.principal == owner.principal or (matches if named else not owner_only)
    assert may_see(reader, owner_of(owner), owner_only=owner_only) is expected


@given(caller=CALLERS)
def test_an_owner_may_see_and_delete_whatever_group_it_is_in_now(caller: Caller) -> None:
    stamp = Ownership(owner=caller.principal, attributes=AccessAttributes(roles=("x",), teams=("y",)))
    assert may_see(caller, stamp, owner_only=True)
    assert may_delete(caller, stamp)


def test_a_record_without_ownership_belongs_to_its_tenant() -> None:
    assert may_see(Caller(tenant="t", principal="ann"), Ownership(), owner_only=True)


@pytest.mark.parametrize(
    ("caller", "error"),
    [
        (Caller(tenant="t", principal="ann"), None),
        (Caller(tenant="t", principal="root", roles=("admin",)), None),
        (Caller(tenant="t", principal="bob", teams=("red",)), Forbidden),
        (Caller(tenant="t", principal="eve"), NotFound),
    ],
)
def test_deletion_is_not_found_without_read_access_and_forbidden_with_it(
    caller: Caller, error: type[Exception] | None
) -> None:
    stamp = Ownership(owner="ann", attributes=AccessAttributes(teams=("red",)))
    rules = AccessRules(owner_only=False)
    if error is None:
        rules.check_deletion(caller, stamp, "agent", "a")
        return
    with pytest.raises(error):
        rules.check_deletion(caller, stamp, "agent", "a")
