"""All guards, in the order of their races."""

from tests.guards.background import BACKGROUNDS
from tests.guards.crashing import CRASHES
from tests.guards.deleting import DELETING
from tests.guards.ending import ENDINGS
from tests.guards.leasing import LEASINGS
from tests.guards.losing_power import LOST_POWER
from tests.guards.opening import OPENINGS
from tests.guards.policing import POLICING
from tests.guards.queueing import QUEUEING
from tests.guards.races import Race
from tests.guards.repeating import REPETITIONS
from tests.guards.resuming import RESUMES
from tests.guards.storing import STORES
from tests.guards.supervising import SUPERVISIONS

_ORDER = tuple(Race)
GUARDS = tuple(
    sorted(
        (
            *RESUMES,
            *OPENINGS,
            *LEASINGS,
            *CRASHES,
            *SUPERVISIONS,
            *REPETITIONS,
            *ENDINGS,
            *DELETING,
            *STORES,
            *LOST_POWER,
            *QUEUEING,
            *POLICING,
            *BACKGROUNDS,
        ),
        key=lambda guard: _ORDER.index(guard.race),
    )
)
