"""Start a function in this process and print, as JSON, its times and its loaded modules.

`started.py baseline | function MODULE | stream [EVENT]`: with the file of an event, the first request is answered, too.
Before the measurement it imports only modules of a bare interpreter: any other would be left out of the count.
"""

import sys
import time

BEGAN_S = time.process_time()
BARE = frozenset(sys.modules)
REGION = "eu-central-1"
ROOT = __file__.rsplit("/", 3)[0]
REMAINING_MS = 900_000


class Context:
    """The context that Lambda passes to a function, as far as our functions read it."""

    aws_request_id = "00000000-0000-4000-8000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        return REMAINING_MS


def start_report() -> dict[str, object]:
    """Return the cost of the start until now: processor time, memory, and the file of each module loaded."""
    cpu_s = time.process_time() - BEGAN_S
    with open("/proc/self/status") as status:  # a process's usage counts the memory of the one that started it, too
        peak_kb = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    files = {name: getattr(sys.modules[name], "__file__", None) for name in set(sys.modules) - BARE}
    return {"cpu_s": cpu_s, "memory_mb": peak_kb / 1_024, "modules": files}


def load_baseline() -> None:
    """Load the libraries of every function by their usual imports. Never change it: it is the unit of the figures."""
    # starlette loads it if it is there, but not in our functions
    sys.modules["python_multipart"] = sys.modules["multipart"] = None  # type: ignore[assignment]
    import boto3
    import mangum  # noqa: F401
    import starlette.applications
    import starlette.requests
    import starlette.responses
    import starlette.routing  # noqa: F401
    from aws_lambda_powertools import Logger, Metrics  # noqa: F401

    boto3.Session(region_name=REGION).client("dynamodb")


def start_function(module: str, event_path: str | None) -> dict[str, object]:
    """Return the cost of a function's start, and the loaded modules and answer of its first request."""
    from importlib import import_module

    handler = import_module(module).handler
    report = start_report()
    if event_path is None:
        return report
    import json

    with open(event_path) as file:
        event = json.load(file)
    loaded = set(sys.modules)
    answer = handler(event, Context())
    return {**report, "first_request": sorted(set(sys.modules) - loaded), "answer": answer}


def start_stream(event_path: str | None) -> dict[str, object]:
    """Return the same of a function that is a web server, as it is when it takes connections."""
    import stream  # type: ignore[import-not-found] # on the path of the process that this file starts
    import uvicorn

    report: dict[str, object] = {}
    startup = uvicorn.Server.startup

    async def startup_and_report(server: uvicorn.Server, sockets: object = None) -> None:
        await startup(server)
        report.update(start_report())
        if event_path is not None:
            report.update(await served_event(server.servers[0].sockets[0].getsockname()[1], event_path))
        server.should_exit = True

    uvicorn.Server.startup = startup_and_report  # type: ignore # reports at the right moment
    stream.main(0)
    return report


async def served_event(port: int, event_path: str) -> dict[str, object]:
    """Send the event's request to the server, as the web adapter does; return the loaded modules and the answer."""
    import asyncio
    import json

    with open(event_path) as file:
        event = json.load(file)
    body = (event["body"] or "").encode()
    head = (
        f"{event['httpMethod']} {event['path']} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        f"content-length: {len(body)}\r\nx-amzn-request-context: {json.dumps(event['requestContext'])}\r\n\r\n"
    )
    loaded = set(sys.modules)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    status, _, rest = answer.decode().partition("\r\n")
    return {
        "first_request": sorted(set(sys.modules) - loaded),
        "answer": {"statusCode": int(status.split()[1]), "body": rest},
    }


def main() -> None:
    kind, *rest = sys.argv[1:]
    sys.path[:1] = [f"{ROOT}/functions", f"{ROOT}/shared"]
    report: dict[str, object]
    if kind == "baseline":
        load_baseline()
        report = start_report()
    elif kind == "function":
        report = start_function(rest[0], rest[1] if len(rest) > 1 else None)
    else:
        report = start_stream(rest[0] if rest else None)
    import json

    print(json.dumps(report))


main()
