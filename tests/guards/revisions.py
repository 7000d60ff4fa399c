"""Guards of most transitions: header and turn are written only at the revision that was read."""

from tests.guards.guard import Edit, ours

# A record put without a condition restarts its count; then the next write would notice, not this one.
STILL_COUNTED = ours(
    "adapters/sqlite/sqlite_writes.py",
    "UPDATE SET rev = excluded.rev,",
    "UPDATE SET rev = rev + 1,",
)
ANY_HEADER = ours(
    "store/sessions/session_records.py",
    "when=(RevIs(session.rev) if session.rev else Absent(),),",
    "when=() if session.rev else (Absent(),),",
)
ANY_TURN = ours(
    "store/sessions/turn_records.py",
    "when=(RevIs(state.rev) if state.rev else Absent(),),",
    "when=() if state.rev else (Absent(),),",
)
HEADER_ALONE: tuple[Edit, ...] = (ANY_HEADER, STILL_COUNTED)
TURN_ALONE: tuple[Edit, ...] = (ANY_TURN, STILL_COUNTED)
BOTH: tuple[Edit, ...] = (ANY_HEADER, ANY_TURN, STILL_COUNTED)
DOUBLED = "header and turn are as they were read (the two double each other)"
