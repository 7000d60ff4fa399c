"""The worker of clean-up jobs, invoked by their queue."""

from turnstone.edge.jobs import JobsWorker

handler = JobsWorker(__name__)
