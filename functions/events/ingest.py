"""The worker of insertions into memory banks, invoked by their queue: jobs, and objects put into the bucket."""

from turnstone.edge.jobs import IngestWorker

handler = IngestWorker(__name__)
