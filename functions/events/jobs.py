"""The worker that the queue of clean-up jobs invokes, given some of them."""

from turnstone.edge.jobs import JobsWorker

handler = JobsWorker(__name__)
