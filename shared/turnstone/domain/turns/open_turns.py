"""What an operator is told of turns that have not ended."""

from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.turns import TurnState
from turnstone.domain.values.frozen import Frozen


class Trouble(Frozen):
    """Why an open turn can't be read, or cancelled, in a sentence that has nothing of what was said in it."""

    reason: str


Looked = tuple[TurnRef, TurnState | Trouble]
