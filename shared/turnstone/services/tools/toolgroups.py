"""Toolgroups, built in and registered, and their tools outside of any turn."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import uuid4

from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import (
    AlreadyRegistered,
    InvalidRequest,
    NotFound,
    ToolFailed,
    ToolgroupUnavailable,
    TurnstoneError,
    Unsupported,
)
from turnstone.domain.memory.lent_banks import RAG, banks_in_call
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.registry.registry import BUILTIN, MCP, PROVIDERS_ELSEWHERE, McpEndpoint, Toolgroup
from turnstone.domain.tools.inline_toolgroups import INLINE
from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation, ToolResult
from turnstone.domain.tools.tools import ToolCall, ToolDef
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.values.cancellation import StopSignal
from turnstone.ports.system import Clock
from turnstone.services.threads.executor import TurnExecutor
from turnstone.services.threads.pending import Pending, Unanswered, awaiting
from turnstone.services.tools.lookup import no_registration_of
from turnstone.services.tools.tenant_tools import LISTING_S, TenantTools
from turnstone.services.tools.toolboxes import Toolboxes
from turnstone.store.registry.registry import RegistryStore

log = logging.getLogger(__name__)
MAX_FILES_BYTES = 4_000_000
GroupTools = tuple[Toolgroup, tuple[ToolDef, ...]]


class Toolgroups:
    def __init__(self, store: RegistryStore[Toolgroup], boxes: Toolboxes, clock: Clock, executor: TurnExecutor) -> None:
        self._store = store
        self._boxes = boxes
        self._clock = clock
        self._executor = executor

    def list(self, caller: Caller) -> tuple[Toolgroup, ...]:
        """Return the server's own groups, then those registered. Raises StoreUnavailable."""
        own = self._boxes.lookup.own()
        registered = sorted(self._store.list(caller.tenant), key=lambda group: group.identifier)
        listed = self._boxes.lookup.listed()
        return (*listed.values(), *(group for group in registered if group.identifier not in own))

    def get(self, caller: Caller, toolgroup_id: str) -> Toolgroup:
        """Return the toolgroup. Raises NotFound."""
        if own := self._boxes.lookup.own().get(toolgroup_id):
            return own
        if registered := self._store.find(caller.tenant, toolgroup_id):
            return registered
        raise NotFound("toolgroup", toolgroup_id)

    def register(self, caller: Caller, group: Toolgroup, attempt: Attempt, *, may_be_off: bool = False) -> None:
        """Store the toolgroup. Raises InvalidRequest, Unsupported, AlreadyRegistered, IdempotencyMismatch.

        Args:
            may_be_off: accept a built-in group that is off on this server; agents that name it are refused.
        """
        if group.provider_id == BUILTIN and group.provider_resource_id == RAG:
            from turnstone.domain.tools.rag_settings import refuse_wrong_arguments  # only for this group

            refuse_wrong_arguments(group.args or {}, ("args",))
        if group.identifier.startswith(INLINE):
            message = f"toolgroup_id: names that begin with {INLINE!r} are those of requests; choose another name"
            raise InvalidRequest(message, ("toolgroup_id",))
        own = self._boxes.lookup.own()
        if found := own.get(group.identifier):
            if group != found:
                taken = f"{group.identifier!r} comes with the server and can't be redefined"
                message = f"toolgroup_id: {taken}; choose another name"
                raise InvalidRequest(message, ("toolgroup_id",))
            if not self._boxes.lookup.may_be_registered(group.identifier):
                raise Unsupported(f"toolgroup_id: {no_registration_of(group.identifier)}", ("toolgroup_id",))
            return  # an equal group is already there
        try:
            self._boxes.kinds.build(group)  # raises InvalidRequest for an impossible group
        except Unsupported as problem:
            if may_be_off:
                self._refuse_another(caller, group)
                return
            raise Unsupported(f"toolgroup_id: {problem}", ("toolgroup_id",)) from None
        self._store.register(caller.tenant, group, attempt, self._clock.now())

    def unregister(self, caller: Caller, toolgroup_id: str) -> None:
        """Remove a registered group; a built-in one stays, without an error.

        Raises NotFound, InvalidRequest for a group of the operator's file.
        """
        if self._boxes.lookup.builtin(toolgroup_id) is not None:
            return
        if toolgroup_id in self._boxes.lookup.own():
            raise InvalidRequest(f"toolgroup {toolgroup_id!r} comes with the server and can't be unregistered")
        try:
            self._store.remove(caller.tenant, toolgroup_id)
        except NotFound:
            if toolgroup_id not in PROVIDERS_ELSEWHERE:
                raise

    def _refuse_another(self, caller: Caller, group: Toolgroup) -> None:
        """Raise AlreadyRegistered if the tenant has a group of its own under this name."""
        if self._store.find(caller.tenant, group.identifier) is not None:
            raise AlreadyRegistered("toolgroup", group.identifier)

    def tools(
        self, caller: Caller, provider_data: ProviderData, groups: Sequence[str] = (), named_by: str = ""
    ) -> tuple[GroupTools, ...]:
        """Return the tools of some groups, each with its group, or of all there are.

        Without `groups`, a group whose tools can't be listed now is left out.

        Raises:
            Unsupported: there is no such group; its location is `named_by`, the field of the request.
            ToolgroupUnavailable: the tools of a named group can't be listed now.
        """
        tools = self._boxes.of_tenant(ToolAsker(caller.tenant, provider_data))
        if not groups:
            return tuple(self._all(tools, self.list(caller)))
        try:
            return tuple(map(tools.chosen, groups))
        except Unsupported as problem:
            raise Unsupported(str(problem), (named_by,)) from None

    def tools_at(self, caller: Caller, provider_data: ProviderData, uri: str) -> tuple[GroupTools, ...]:
        """Return the tools of an MCP server that is registered nowhere. Raises InvalidRequest, ToolgroupUnavailable."""
        endpoint = McpEndpoint(uri=uri)
        group = Toolgroup(identifier=MCP, provider_resource_id=MCP, provider_id=MCP, mcp_endpoint=endpoint)
        return ((group, self._boxes.of_tenant(ToolAsker(caller.tenant, provider_data)).listed(group)),)

    def tool(self, caller: Caller, name: str) -> tuple[Toolgroup, ToolDef]:
        """Return the tool of that name, or of `group/tool`, with its group.

        Raises:
            NotFound: there is no such tool.
            Unsupported: there is no such group.
            ToolgroupUnavailable: there may be, but its server can't be reached.
        """
        return self._found(self._boxes.of_tenant(ToolAsker(caller.tenant)), caller, name)

    def invoke(
        self, caller: Caller, name: str, arguments: Mapping[str, Any], attempt: Attempt, stop: StopSignal | None = None
    ) -> tuple[Toolgroup, ToolResult, bool]:
        """Run a tool outside of any turn until the signal is set; return its group, answer, and whether it failed.

        Its files are in the answer's metadata, as base64.

        Raises:
            NotFound: there is no such tool.
            ToolgroupUnavailable: there may be, but its server can't be reached, or refuses the credentials.
            Overloaded: every slot of the server or of the tenant is taken.
        """
        with self._executor.permit(caller.tenant):
            return self._invoked(caller, name, arguments, attempt, stop)

    def _invoked(
        self, caller: Caller, name: str, arguments: Mapping[str, Any], attempt: Attempt, stop: StopSignal | None
    ) -> tuple[Toolgroup, ToolResult, bool]:
        asker = ToolAsker(caller.tenant, attempt.provider_data)
        tools = self._boxes.of_tenant(asker)
        group, tool = self._found(tools, caller, name)
        key = _idempotency_key(caller, attempt)
        awaited: Pending[ToolResult] = Pending()
        invocation = ToolInvocation(
            call=ToolCall(call_id=key, tool_name=tool.name, arguments=dict(arguments)),
            arguments={**arguments, **(group.args or {})},
            idempotency_key=key,
            ref=None,
            asker=asker,
            timeout_s=self._boxes.timeout_s,
            stop=awaited.stop,
            fixed_arguments={**arguments, **(group.args or {})},
            banks=banks_in_call(arguments, owner_of(caller)),
        )
        box = self._boxes.kinds.build(group)
        with awaiting([awaited], stop):
            awaited.begin(self._boxes.threads, lambda: box.invoke(invocation), caller.tenant)
            try:
                return group, _with_files(awaited.answer(invocation.timeout_s)), False
            except ToolFailed as failed:
                if failed.refusal is not None:
                    raise failed.refusal from failed
                return group, ToolResult(str(failed)), True
            except Unanswered:
                return group, ToolResult(f"This tool gave no answer within {invocation.timeout_s:g} s."), True

    def _found(self, tools: TenantTools, caller: Caller, name: str) -> tuple[Toolgroup, ToolDef]:
        group_id, _, tool_name = name.rpartition("/")
        if name.startswith("/") or "/" in group_id:
            raise NotFound("tool", name)
        groups = [_group(tools, group_id)] if group_id else self.list(caller)
        unlisted: list[TurnstoneError] = []
        for group, there in self._each_listed(tools, groups):
            if isinstance(there, TurnstoneError):
                unlisted.append(there)
                continue
            for tool in there:
                if tool_name in (tool.name, self._boxes.kinds.offered_as(group.identifier, tool.name)):
                    return group, tool
        for problem in unlisted:
            if group_id or not isinstance(problem, Unsupported):  # a group that can't run here has no tools
                raise problem
        raise NotFound("tool", name)

    def _all(self, tools: TenantTools, groups: Sequence[Toolgroup]) -> Iterator[GroupTools]:
        """Yield the groups with their tools, without those that can't be listed."""
        for group, there in self._each_listed(tools, groups):
            if isinstance(there, TurnstoneError):
                log.info("tools of toolgroup %r left out of a list: %s", group.identifier, there)
            else:
                yield group, there

    def _each_listed(
        self, tools: TenantTools, groups: Sequence[Toolgroup]
    ) -> Iterator[tuple[Toolgroup, tuple[ToolDef, ...] | TurnstoneError]]:
        """Yield the groups with their tools, listed in parallel, or with the error."""
        pending: list[Pending[tuple[ToolDef, ...]]] = [Pending() for _ in groups]
        with awaiting(pending, None):
            for group, one in zip(groups, pending, strict=True):
                listing = partial(tools.listed, group)
                one.begin(self._boxes.threads, listing, tools.asker.tenant)
            for group, one in zip(groups, pending, strict=True):
                try:
                    yield group, one.answer(LISTING_S)
                except (ToolgroupUnavailable, InvalidRequest) as problem:
                    yield group, problem
                except Unanswered as problem:
                    yield group, ToolgroupUnavailable(group.identifier, str(problem))


def _group(tools: TenantTools, group_id: str) -> Toolgroup:
    """Return the group. Raises NotFound, and Unsupported for one of the server's that is off."""
    try:
        return tools.group(group_id)
    except Unsupported as problem:
        if group_id.startswith(f"{BUILTIN}::"):
            raise
        raise NotFound("toolgroup", group_id) from problem


def _idempotency_key(caller: Caller, attempt: Attempt) -> str:
    """Return a key that differs per tenant and request: the tool's server may serve other tenants as well."""
    if attempt.key is None:
        return str(uuid4())
    return sha256("\0".join((caller.tenant, attempt.key, attempt.fingerprint)).encode()).hexdigest()


def _with_files(result: ToolResult) -> ToolResult:
    if not result.files:
        return result
    files: list[dict[str, str]] = []
    left = MAX_FILES_BYTES
    for file in result.files:
        if len(file.body) <= left:
            files.append({"name": file.name, "mime_type": file.mime_type, "data": b64encode(file.body).decode()})
            left -= len(file.body)
    return ToolResult(result.content, {**(result.metadata or {}), "files": files})
