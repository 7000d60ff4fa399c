"""The worker of webhooks, invoked by their queue: makes the deliveries of events, and tries them."""

from turnstone.edge.jobs import JobsWorker

handler = JobsWorker(__name__)
