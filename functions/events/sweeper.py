"""Every few minutes: attends to turns that nobody looks after."""

from turnstone.edge.sweep import ScheduledSweep

handler = ScheduledSweep(__name__)
