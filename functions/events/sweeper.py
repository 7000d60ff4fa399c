"""Every few minutes: attends to turns that nobody looks after, and sends clean-ups again that are overdue."""

from turnstone.edge.sweep import ScheduledSweep

handler = ScheduledSweep(__name__)
