"""Tools of Python: create, change, delete, read and list them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import Conflict, NotFound, ToolNameTaken
from turnstone.domain.letta.agents import ALL_TOOLS, TOOL_NAMES
from turnstone.domain.letta.tools import TOOL_KIND, CustomTool, StoredTool, ToolQuery
from turnstone.domain.lists import ListQuery
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.access.access import AccessRules
from turnstone.services.access.visible_list import Listing
from turnstone.store.layout.contention import ReadAgain, retried
from turnstone.store.letta.tools import ToolStore

AT_ONCE = 50
BUSY = "the tool is being changed too often at once, try again"
ToolChange = Callable[[CustomTool], CustomTool]


@dataclass(frozen=True, slots=True)
class ToolDeps:
    """Dependencies of tools."""

    store: ToolStore
    rules: AccessRules
    clock: Clock
    ids: IdGenerator


class CustomTools:
    def __init__(self, deps: ToolDeps) -> None:
        self._deps = deps

    def create(self, caller: Caller, new: CustomTool, attempt: Attempt) -> StoredTool:
        """Return the new tool, under an id of its own.

        Raises ToolNameTaken where a tool of the tenant has its name, IdempotencyMismatch.
        """
        _refuse_base_name(new.name)
        deps, now = self._deps, self._deps.clock.now()
        tool = new.model_copy(update={"tool_id": deps.ids.new_id()})
        stored = StoredTool(tool=tool, order=deps.ids.order_key(now, None), stamp=owner_of(caller))
        try:
            tool_id = deps.store.create(caller.tenant, stored, attempt, now)
        except Conflict as conflict:
            raise ToolNameTaken(new.name) from conflict
        return self.read(caller, tool_id)

    def upsert(self, caller: Caller, new: CustomTool, attempt: Attempt, *, replaces: bool = True) -> StoredTool:
        """Return the tool of that name with the fields of the new one, or as it is; created if there is none.

        Raises Forbidden, and ToolNameTaken where another caller's hidden tool has the name.
        """
        _refuse_base_name(new.name)

        def act() -> StoredTool:
            tool_id = self._deps.store.id_named(caller.tenant, new.name)
            try:
                if tool_id is None:
                    return self.create(caller, new, attempt)
                if not replaces:
                    return self.read(caller, tool_id)
                return self.change(caller, tool_id, lambda tool: new.model_copy(update={"tool_id": tool.tool_id}))
            except (NotFound, ToolNameTaken) as refused:
                if self._deps.store.id_named(caller.tenant, new.name) != tool_id:
                    raise ReadAgain from refused
                raise ToolNameTaken(new.name) from refused

        return retried(act, BUSY, on=(ReadAgain,))

    def read(self, caller: Caller, tool_id: str) -> StoredTool:
        """Return the tool. Raises NotFound, ContentLost."""
        stored = self._deps.store.get(caller.tenant, tool_id)
        self._deps.rules.check_sight(caller, stored.stamp, TOOL_KIND, tool_id)
        return stored

    def find(self, caller: Caller, found: str) -> str | StoredTool:
        """Return the tool of that id, or a base tool's name, which is its own. Raises NotFound, ContentLost."""
        return found if found in ALL_TOOLS else self.read(caller, found)

    def id_named(self, caller: Caller, name: str) -> str:
        """Return the id of the tool of that name; that of a base tool is its name here. Raises NotFound."""
        if name in ALL_TOOLS:
            return name
        tool_id = self._deps.store.id_named(caller.tenant, name)
        if tool_id is None:
            raise NotFound(TOOL_KIND, name)
        try:
            return self.read(caller, tool_id).tool.tool_id
        except NotFound as hidden:
            raise NotFound(TOOL_KIND, name) from hidden

    def existing(self, caller: Caller, tool_ids: Sequence[str]) -> list[StoredTool]:
        """Return the tools in this order. Raises NotFound for one that is missing or hidden."""
        found = {each.tool.tool_id: each for each in self._deps.store.gather(caller.tenant, tool_ids)}
        for tool_id in tool_ids:
            if tool_id not in found:
                raise NotFound(TOOL_KIND, tool_id)
            self._deps.rules.check_sight(caller, found[tool_id].stamp, TOOL_KIND, tool_id)
        return [found[tool_id] for tool_id in tool_ids]

    def change(self, caller: Caller, tool_id: str, act: ToolChange) -> StoredTool:
        """Return the tool as the function changes it, for the next call of each agent that has it.

        Raises NotFound, Forbidden, ToolNameTaken, and as the function does.
        """

        def attempt() -> StoredTool:
            stored = self.read(caller, tool_id)
            self._deps.rules.check_deletion(caller, stored.stamp, TOOL_KIND, tool_id, "change")
            changed = stored.model_copy(update={"tool": act(stored.tool)})
            if changed.tool.name != stored.tool.name:
                _refuse_base_name(changed.tool.name)
                if self._deps.store.id_named(caller.tenant, changed.tool.name) is not None:
                    raise ToolNameTaken(changed.tool.name)
            if changed != stored:
                self._deps.store.replace(caller.tenant, stored, changed)
            return changed

        return retried(attempt, BUSY, on=(Conflict,))

    def delete(self, caller: Caller, tool_id: str) -> None:
        """Delete the tool, which disappears from its agents. Raises NotFound, Forbidden."""

        def attempt() -> None:
            stored = self.read(caller, tool_id)
            self._deps.rules.check_deletion(caller, stored.stamp, TOOL_KIND, tool_id)
            self._deps.store.delete(caller.tenant, stored)

        retried(attempt, BUSY, on=(Conflict,))

    def list(self, caller: Caller, query: ToolQuery) -> Iterator[str | StoredTool]:
        """Yield the requested tools: the names of base tools first, then tools of Python, oldest first.

        Raises NotFound for an unknown `after`.
        """
        base = tuple(ALL_TOOLS)
        after: str | None = None
        if query.after is not None and query.after in TOOL_NAMES:
            base = base[base.index(TOOL_NAMES[query.after]) + 1 :]
        elif query.after is not None:
            base, after = (), self.read(caller, query.after).order
        yield from base[: query.limit]
        if left := max(query.limit - len(base), 0):
            yield from self._listed(caller, after, left)

    def _listed(self, caller: Caller, after: str | None, limit: int) -> Iterator[StoredTool]:
        tenant, rules = caller.tenant, self._deps.rules
        entries = self._deps.store.entries(tenant, after, limit)
        query = ListQuery(limit=limit, cursor=after)
        shown = iter(Listing(entries, query, lambda entry: rules.may_see(caller, entry.stamp)))
        while ids := [entry.fields["tool_id"] for entry in islice(shown, AT_ONCE)]:
            yield from self._deps.store.gather(tenant, ids)


def _refuse_base_name(name: str) -> None:
    """Raise ToolNameTaken for the name of a base tool."""
    if name in ALL_TOOLS:
        raise ToolNameTaken(name)
