"""Every few minutes: reconcile abandoned turns, and send overdue clean-ups again."""

from turnstone.edge.sweep import ScheduledSweep

handler = ScheduledSweep(__name__)
