"""Load an open turn completely: its record, and its separately stored steps."""

from turnstone.domain.errors import NotFound
from turnstone.domain.refs import SessionRef
from turnstone.domain.turns.turns import TurnState, TurnStatus
from turnstone.ports.records import Record
from turnstone.ports.storage import RangeStore
from turnstone.store.layout.keys import steps_of_turn
from turnstone.store.layout.ranges import all_records
from turnstone.store.sessions.turn_records import order_of, turn_state_of

STATUS = "status"


def whole_state(store: RangeStore, ref: SessionRef, record: Record) -> TurnState:
    """Return the turn with all its steps.

    The steps of an open turn are read separately, and it may end in between; then it is read again, because the
    separate steps of an ended turn are deleted.
    """
    while not is_terminal(record):
        order = order_of(record)
        steps = all_records(store, steps_of_turn(ref, order))
        again = store.get(record.key)
        if again is None:
            raise NotFound("turn", order)
        if again.rev == record.rev:
            return turn_state_of(record, steps)
        record = again
    return turn_state_of(record)


def is_terminal(record: Record) -> bool:
    return TurnStatus(str(record.attributes[STATUS])).is_terminal
