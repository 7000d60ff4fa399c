"""DynamoDB and S3 as a process on loopback, which outlives the servers that use it: moto behind plain HTTP.

Requests are answered one after the other, because moto copies its tables without a lock. Its records end with the
process, which replaces AWS for clients that name it as their endpoint.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any, Self

import botocore.session
import uvicorn
from botocore.awsrequest import AWSPreparedRequest
from botocore.compat import HTTPHeaders
from moto.core.botocore_stubber import BotocoreStubber
from starlette.types import Message, Receive, Scope, Send

from functions.local.server import listen
from tests.support.aws.dynamo_table import create_table
from tests.support.aws.emulator import KEY_ID, REGION, SECRET, cloud_environment
from tests.support.server.servers import HOST, ROOT, get_json

BUCKET = "turnstone-blobs"
SCOPE = re.compile(rb"Credential=[^/]+/\d{8}/(?P<region>[a-z0-9-]+)/(?P<service>[a-z0-9]+)/aws4_request")
READS_PATH = "/__reads"
READS = ("GetItem", "BatchGetItem", "Query")


@dataclass(frozen=True)
class TableRead:
    """A read of a table, as it was sent."""

    name: str
    request: dict[str, Any]

    @property
    def table(self) -> str:
        name: str = self.request.get("TableName") or next(iter(self.request["RequestItems"]))
        return name

    @property
    def keys(self) -> list[tuple[str, str]]:
        """Return the partition and sort keys it reads; of a range, the sort key where it begins."""
        if self.name == "Query":
            values = self.request["ExpressionAttributeValues"]
            return [(values[":pk"]["S"], values[":start"]["S"])]
        keys = [self.request["Key"]] if self.name == "GetItem" else self._batched()
        return [(key["pk"]["S"], key["sk"]["S"]) for key in keys]

    def _batched(self) -> list[dict[str, Any]]:
        return [key for items in self.request["RequestItems"].values() for key in items["Keys"]]


class AwsProcess:
    """The process, empty but for a bucket, while the `with` block lasts."""

    def __init__(self) -> None:
        self.port = 0
        self._process: subprocess.Popen[str] | None = None
        self._tables = 0

    @property
    def environment(self) -> dict[str, str]:
        """An environment in which processes use it as AWS, and no other endpoint."""
        return cloud_environment(f"http://{HOST}:{self.port}")

    def client(self, service: str) -> Any:
        """Return a client of one of its services."""
        session = botocore.session.Session()
        session.set_credentials(KEY_ID, SECRET)
        return session.create_client(service, region_name=REGION, endpoint_url=f"http://{HOST}:{self.port}")

    def new_table(self) -> str:
        """Return the name of an unused table."""
        self._tables += 1
        name = f"turnstone-{self._tables}"
        create_table(self.client("dynamodb"), name)
        return name

    def table_reads(self, table: str) -> list[TableRead]:
        """Return the reads of the table since the last call for any table."""
        answer = get_json(self.port, READS_PATH)
        assert answer is not None, "moto does not answer"
        requests: Any = answer["requests"]
        reads = [TableRead(name, request) for name, request in requests]
        return [read for read in reads if read.table == table]

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.fakes.aws.aws_server"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        first_line = self._process.stdout.readline()
        assert first_line.strip().isdecimal(), f"moto printed no port but {first_line!r}"
        self.port = int(first_line)
        location: Any = {"LocationConstraint": REGION}
        self.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration=location)
        return self

    def __exit__(self, *exc_info: object) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


_reads: list[tuple[str, str]] = []


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Have moto answer a signed request. It is called on the event loop itself, so that no two are answered at once."""
    assert scope["type"] == "http"
    body = await _body(receive)
    headers = dict(scope["headers"])
    if scope["path"] == READS_PATH:
        reads = b'{"requests": [' + b", ".join(f'["{name}", {text}]'.encode() for name, text in _reads) + b"]}"
        _reads.clear()
        return await _send(send, 200, [], reads)
    if (name := headers.get(b"x-amz-target", b"").decode().partition(".")[2]) in READS:
        _reads.append((name, body.decode()))
    signed_for = SCOPE.search(headers[b"authorization"])
    assert signed_for is not None, "only signed requests name their service"
    host = f"{signed_for['service'].decode()}.{signed_for['region'].decode()}.amazonaws.com"
    target = scope["raw_path"].decode() + (f"?{query}" if (query := scope["query_string"].decode()) else "")
    sent_headers = HTTPHeaders()
    for name, value in headers.items():
        sent_headers[name.decode()] = host if name == b"host" else value.decode()
    answer = BotocoreStubber().process_request(
        AWSPreparedRequest(scope["method"], f"https://{host}{target}", sent_headers, body, stream_output=False)
    )
    assert answer is not None, f"moto has no {host}"
    status, more, content = answer
    encoded = content.encode() if isinstance(content, str) else content
    own = [(name.lower().encode(), str(value).encode()) for name, value in more.items()]
    kept = [(name, value) for name, value in own if name not in (b"content-length", b"connection")]
    await _send(send, status, kept, encoded)


async def _send(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


async def _body(receive: Receive) -> bytes:
    parts, has_more = [], True
    while has_more:
        message: Message = await receive()
        parts.append(message.get("body", b""))
        has_more = message.get("more_body", False)
    return b"".join(parts)


def main() -> None:
    import tests.fakes.aws.moto_tables  # noqa: F401 - transactions that take no time, in this process only

    listening = listen(IPv4Address(HOST), 0)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", timeout_keep_alive=600)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
