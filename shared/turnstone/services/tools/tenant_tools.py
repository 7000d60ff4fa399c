"""The tools that a tenant may name, found by their groups and listed by the servers that run them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from turnstone.domain.agents.agents import ToolGroup, toolgroup_name
from turnstone.domain.errors import AddressForbidden, InvalidRequest, ToolgroupUnavailable, Unsupported
from turnstone.domain.letta.tools import GROUP as CUSTOM
from turnstone.domain.letta.tools import custom_tool_in, custom_tools_of
from turnstone.domain.provider_data import MCP_HEADERS
from turnstone.domain.registry.registry import BUILTIN, MCP, McpEndpoint, Toolgroup
from turnstone.domain.tools.inline_toolgroups import InlineToolgroup
from turnstone.domain.tools.tool_runs import OfferedTool, ToolAsker
from turnstone.domain.tools.tools import ToolDef
from turnstone.ports.tools import Toolbox, ToolKinds
from turnstone.services.tools.lookup import ToolgroupLookup, builtin_toolgroup

if TYPE_CHECKING:
    from turnstone.services.threads.daemon_threads import DaemonThreads

LISTING_S = 20.0


def offered_at_creation(
    lookup: ToolgroupLookup, kinds: ToolKinds, tenant: str, toolgroups: Sequence[ToolGroup]
) -> tuple[OfferedTool, ...]:
    """Return the tools of built-in groups. Raises Unsupported for others: no tool server is called yet."""
    for toolgroup in toolgroups:
        group_id = toolgroup_name(toolgroup).partition("/")[0]
        if lookup.builtin(group_id) is None:
            raise Unsupported(f"the tools of {group_id!r} are looked up in the turn", ("toolgroups",))
    return TenantTools(lookup, kinds, ToolAsker(tenant)).offered(toolgroups)


class TenantTools:
    """The tools of one tenant, on behalf of one caller."""

    def __init__(
        self,
        lookup: ToolgroupLookup,
        kinds: ToolKinds,
        asker: ToolAsker,
        threads: DaemonThreads | None = None,
        own: Iterable[InlineToolgroup] = (),
    ) -> None:
        """Use the threads, if given, to list several groups in parallel. `own` are those of the turn's request."""
        self._lookup = lookup
        self._kinds = kinds
        self._threads = threads
        self.asker = asker
        self._own = {toolgroup.identifier: toolgroup for toolgroup in own}

    def offered(self, toolgroups: Sequence[ToolGroup]) -> tuple[OfferedTool, ...]:
        """Return each tool once; where it is named more than once, the arguments named last are fixed.

        Raises:
            Unsupported: there is no such group or tool.
            ToolgroupUnavailable: a group's server can't be reached now.
        """
        offered: dict[tuple[str, str], OfferedTool] = {}
        names = [toolgroup_name(each) for each in toolgroups if custom_tool_in(each) is None]
        found = self._groups(list(dict.fromkeys(names)))
        custom_ids = custom_tools_of(toolgroups)
        custom = self._lookup.python_tools(self.asker.tenant, custom_ids) if custom_ids else {}
        for toolgroup in toolgroups:
            fixed = {} if isinstance(toolgroup, str) else toolgroup.args
            if (tool_id := custom_tool_in(toolgroup)) is not None:
                if tool_id in custom:  # else it was deleted
                    offered[CUSTOM, tool_id] = OfferedTool(custom[tool_id], fixed, CUSTOM, tool_id)
                continue
            group, there = found[toolgroup_name(toolgroup)]
            group_id = group.identifier
            own = self._own.get(group_id)
            for tool in there:
                offered_as = self._kinds.offered_as(group_id, tool.name)
                earlier = offered.get((group_id, offered_as))
                before = earlier.fixed_arguments if earlier else group.args or {}
                definition = tool if own is None else own.described(tool)
                offered[group_id, offered_as] = OfferedTool(
                    definition=definition
                    if offered_as == tool.name
                    else definition.model_copy(update={"name": offered_as}),
                    fixed_arguments={**before, **fixed},
                    toolgroup=group_id,
                    runs_as=tool.name,
                    needs_approval=own is not None and own.needs_approval(tool),
                )
        return tuple(offered.values())

    def _groups(self, names: Sequence[str]) -> Mapping[str, tuple[Toolgroup, tuple[ToolDef, ...]]]:
        """Return each name's group and tools; servers are called in parallel. Raises as `offered` does."""
        elsewhere = [name for name in names if self._lookup.builtin(name.partition("/")[0]) is None]
        if self._threads is None or len(elsewhere) < 2:
            return {name: self.chosen(name) for name in names}
        from turnstone.services.threads.pending import Pending, Unanswered, awaiting

        pending: dict[str, Pending[tuple[Toolgroup, tuple[ToolDef, ...]]]] = {name: Pending() for name in elsewhere}
        with awaiting(list(pending.values()), None):
            for name, one in pending.items():
                one.begin(self._threads, partial(self.chosen, name), self.asker.tenant)
            found = {name: self.chosen(name) for name in names if name not in pending}
            for name, one in pending.items():
                try:
                    found[name] = one.answer(LISTING_S)
                except Unanswered as problem:
                    raise ToolgroupUnavailable(name, str(problem)) from problem
        return found

    def group(self, group_id: str) -> Toolgroup:
        """Return the group. Raises Unsupported if there is none."""
        if inline := self._own.get(group_id):
            return _inline_group(inline)
        group = self._lookup.find(self.asker.tenant, group_id)
        if group is None:
            if group_id.startswith(f"{BUILTIN}::"):
                self._kinds.build(
                    builtin_toolgroup(group_id)
                )  # raises Unsupported with the setting that turns it on; clients can't register it
            own = ", ".join(sorted(self._lookup.listed()))
            message = f"there is no toolgroup {group_id!r}; register it first (this server has: {own})"
            raise Unsupported(message, ("toolgroups",))
        return group

    def listed(self, group: Toolgroup) -> tuple[ToolDef, ...]:
        """Return the tools of the group. Raises Unsupported, InvalidRequest, ToolgroupUnavailable."""
        own = self._own.get(group.identifier)
        if own is None:
            return self._kinds.build(group).tools(self.asker)
        try:
            there = self._kinds.build(group).tools(self.asker_of(group.identifier))
        except InvalidRequest as wrong:
            field = "headers" if wrong.location[:1] == (MCP_HEADERS,) else "server_url"
            location = ("own_toolgroups", own.identifier, field)
            raise InvalidRequest(str(wrong).partition(": ")[2], location) from wrong
        except AddressForbidden as forbidden:  # the request itself has the address
            raise InvalidRequest(str(forbidden), ("own_toolgroups", own.identifier, "server_url")) from forbidden
        return tuple(tool for tool in there if own.allowed.has(tool))

    def asker_of(self, group_id: str) -> ToolAsker:
        """Return the caller of the group's tools: with the headers that the turn's request has for its server."""
        own = self._own.get(group_id)
        if own is None or not own.headers:
            return self.asker
        return self.asker._replace(provider_data=self.asker.provider_data.with_headers(own.uri, own.headers))

    def box(self, tool: OfferedTool) -> Toolbox:
        """Return the toolbox that runs the tool. Raises Unsupported, InvalidRequest."""
        if tool.options.remote_execution is not None:
            return self._kinds.remote()
        return self._kinds.build(self.group(tool.toolgroup))

    def chosen(self, name: str) -> tuple[Toolgroup, tuple[ToolDef, ...]]:
        """Return the group and its tools, or the one tool of `group/tool`. Raises as `offered` does."""
        group_id, _, only = name.partition("/")
        group = self.group(group_id)
        there = self.listed(group)
        offered_as = {tool.name: self._kinds.offered_as(group_id, tool.name) for tool in there}
        chosen = tuple(tool for tool in there if only in ("", tool.name, offered_as[tool.name]))
        if only and not chosen:
            names = ", ".join(offered_as) or "none"
            raise Unsupported(f"toolgroup {group_id!r} has no tool {only!r}; it has: {names}", ("toolgroups",))
        return group, chosen


def _inline_group(inline: InlineToolgroup) -> Toolgroup:
    """Return the group as it would be registered."""
    return Toolgroup(
        identifier=inline.identifier,
        provider_resource_id=inline.label,
        provider_id=MCP,
        mcp_endpoint=McpEndpoint(uri=inline.uri),
    )
