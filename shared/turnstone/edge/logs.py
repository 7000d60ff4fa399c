"""Log lines as CloudWatch can search them."""

from aws_lambda_powertools import Logger


def log_as_json() -> None:
    """Have every line of ours written as one JSON object."""
    Logger(service="turnstone", level="INFO")  # its name is the service's: the parent of all our loggers
