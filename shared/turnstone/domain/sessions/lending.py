"""The banks that a turn may read, with their namers.

An agent lends the banks that it names to each of its users, as far as its creator may see them; a session those that
its creator may see; and a turn's own request those that its caller may see.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from turnstone.domain.access.access import Ownership
from turnstone.domain.agents.agents import toolgroup_name
from turnstone.domain.memory.lent_banks import (
    NO_BANKS,
    RAG,
    RAG_INSERT,
    SEARCHES,
    LentBanks,
    NamedBank,
    bank_of_session,
    banks_in_arguments,
)

if TYPE_CHECKING:
    from turnstone.domain.agents.agents import AgentConfig, ToolGroup
    from turnstone.domain.sessions.sessions import Session
    from turnstone.domain.turns.turn_settings import TurnSettings


def lent_banks(agent: AgentConfig, owner: Ownership, session: Session, settings: TurnSettings) -> LentBanks:
    """Return the banks that the turn may read. Raises InvalidRequest for arguments that name none.

    Args:
        agent: the configuration of the agent itself, of this owner.
    """
    named = list(banks_named_by(agent, owner)) if settings.config is None or settings.named_by is not None else []
    named += _named_by_request(settings)
    of_session: list[str] = []
    if session.vector_db_id is not None:
        of_session.append(session.vector_db_id)
        named.append(NamedBank(session.vector_db_id, session.stamp, ("vector_db_id",)))
    if session.has_bank:
        of_session.append(bank_of_session(session.session_id))
        named.append(NamedBank(of_session[-1], session.stamp, ("attachments",), is_optional=True))
    return LentBanks(tuple(named), tuple(of_session)) if named else NO_BANKS


def banks_named_by(config: AgentConfig, by: Ownership) -> Iterator[NamedBank]:
    """Yield the banks that the configuration names. Raises InvalidRequest for arguments that name none."""
    for index, tool in enumerate(config.tools):
        if tool.type == "memory":
            for number, bank in enumerate(tool.memory_bank_configs):
                location = ("tools", index, "memory_bank_configs", number, "bank_id")
                yield NamedBank(bank.bank_id, by, location, bank.type)
    yield from _in_toolgroups(config.toolgroups, by)


def keeps_texts(config: AgentConfig) -> bool:
    """Return whether the model may be offered a tool that keeps texts in the session's bank."""
    return any(toolgroup_name(toolgroup) in (RAG, f"{RAG}/{RAG_INSERT}") for toolgroup in config.toolgroups)


def names_banks(settings: TurnSettings) -> bool:
    """Return whether the turn's own request names banks. Raises InvalidRequest for arguments that name none."""
    return any(_named_by_request(settings))


def _named_by_request(settings: TurnSettings) -> Iterator[NamedBank]:
    by = settings.named_by or Ownership()
    if settings.config is not None:
        yield from banks_named_by(settings.config, by)
    else:
        yield from _in_toolgroups(settings.overrides.toolgroups or (), by)


def _in_toolgroups(toolgroups: Sequence[ToolGroup], by: Ownership) -> Iterator[NamedBank]:
    for index, toolgroup in enumerate(toolgroups):
        if not isinstance(toolgroup, str) and toolgroup.name.partition("/")[0] in SEARCHES:
            location = ("toolgroups", index, "args")
            for argument, bank_id in banks_in_arguments(toolgroup.args, location):
                yield NamedBank(bank_id, by, (*location, argument))
