"""An operator's view of open turns."""

from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.turns import TurnState
from turnstone.domain.values.frozen import Frozen


class Trouble(Frozen):
    """Why an open turn cannot be read or cancelled, in a sentence without content of the conversation."""

    reason: str


InspectedTurn = tuple[TurnRef, TurnState | Trouble]
