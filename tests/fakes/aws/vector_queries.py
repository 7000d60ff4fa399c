"""Queries of S3 Vectors, which moto lacks, over the vectors that moto keeps; and limits that moto does not keep.

The double answers the requests that botocore sends, so botocore's description of the service checks them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import hypot
from threading import Lock
from typing import Any

from botocore.awsrequest import AWSRequest, AWSResponse
from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.exceptions import ServiceException
from moto.s3vectors.models import S3VectorsBackend, s3vectors_backends

MOST_FILTERED_BYTES, MOST_BYTES, MOST_NAMES = 2_048, 40_960, 50
ORDERS = ("$gt", "$gte", "$lt", "$lte")


_creating = Lock()
_create_index = S3VectorsBackend.create_index


class Invalid(Exception):
    """The service would refuse the request."""


class IndexExists(ServiceException):
    code = "ConflictException"


def _create_once(backend: S3VectorsBackend, vector_bucket_name: str, *rest: Any, **named: Any) -> None:
    """Refuse an index that exists: moto replaces it by an empty one."""
    index_name = named["index_name"] if "index_name" in named else rest[1]
    with _creating:
        if _index({"vectorBucketName": vector_bucket_name, "indexName": index_name}) is not None:
            raise IndexExists("exists")
        _create_index(backend, vector_bucket_name, *rest, **named)


S3VectorsBackend.create_index = _create_once  # type: ignore[method-assign]


def answer_queries(client: Any, most: int = 100) -> list[dict[str, Any]]:
    """Answer the client's queries, in pages of `most` vectors; return the list of its requests' bodies."""
    service = _Service(most)
    client.meta.events.register_first("before-send.s3vectors.QueryVectors", service.query)
    client.meta.events.register_first("before-send.s3vectors.PutVectors", service.put)
    return service.requests


class _Service:
    def __init__(self, most: int) -> None:
        self.requests: list[dict[str, Any]] = []
        self._most = most

    def query(self, request: AWSRequest, **_: Any) -> AWSResponse:
        body = json.loads(request.body)
        self.requests.append(body)
        index = _index(body)
        if index is None:
            return _answer(request, 404, {"message": "no index"}, "NotFoundException")
        try:
            return _answer(request, 200, _found(index.vectors, body, self._most))
        except Invalid as problem:
            return _answer(request, 400, {"message": str(problem)}, "ValidationException")

    def put(self, request: AWSRequest, **_: Any) -> AWSResponse | None:
        """Refuse what the service refuses; botocore calls moto for every request, which keeps the vectors."""
        body = json.loads(request.body)
        self.requests.append(body)
        if len(request.body) > 20 * 1024 * 1024:
            return _answer(request, 400, {"message": "too large"}, "ValidationException")
        for vector in body["vectors"]:
            filtered = {name: value for name, value in vector["metadata"].items() if name != "chunk"}
            sizes = (_size(filtered), _size(vector["metadata"]), len(vector["metadata"]))
            limits = (MOST_FILTERED_BYTES, MOST_BYTES, MOST_NAMES)
            if any(size > limit for size, limit in zip(sizes, limits, strict=True)):
                return _answer(request, 400, {"message": f"metadata of {sizes}"}, "ValidationException")
        return None


class _Body:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self) -> list[bytes]:
        return [self._body]


def _index(body: Mapping[str, Any]) -> Any:
    """Return moto's index that the request names, None if there is none."""
    buckets = s3vectors_backends[DEFAULT_ACCOUNT_ID]["aws"].vector_buckets.values()
    named = (each for each in buckets if each.vector_bucket_name == body["vectorBucketName"])
    indexes = (index for bucket in named for index in bucket.indexes.values())
    return next((index for index in indexes if index.index_name == body["indexName"]), None)


def _found(vectors: Mapping[str, Any], body: Mapping[str, Any], most: int) -> dict[str, Any]:
    if not 1 <= body["topK"] <= 100:
        raise Invalid("topK")
    if "filter" in body:
        _check(body["filter"])
    vector_of_question = body["queryVector"]["float32"]
    found = [
        {"key": each.key, "distance": 1 - _cosine(each.data["float32"], vector_of_question), "metadata": each.metadata}
        for each in list(vectors.values())
        if "filter" not in body or _matches(body["filter"], each.metadata)
    ]
    found.sort(key=lambda each: each["distance"])
    found = found[: body["topK"]]
    begin = int(body.get("nextToken", 0))
    page = {"vectors": found[begin : begin + most], "distanceMetric": "cosine"}
    return {**page, "nextToken": str(begin + most)} if begin + most < len(found) else page


def _check(given: Mapping[str, Any]) -> None:
    for name, condition in given.items():
        if name in ("$and", "$or"):
            for each in condition or [1 / 0]:
                _check(each)
            continue
        if len(name) > 63:
            raise Invalid(f"name {name!r}")
        ((operator, value),) = condition.items()
        if operator in ORDERS and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise Invalid(f"{operator} of {value!r}")
        if operator in ("$in", "$nin") and not (isinstance(value, list) and value):
            raise Invalid(f"{operator} of {value!r}")
        if operator not in ("$eq", "$ne", "$in", "$nin", "$exists", *ORDERS):
            raise Invalid(operator)


def _matches(given: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    return all(_is_met(name, condition, metadata) for name, condition in given.items())


def _is_met(name: str, condition: Any, metadata: Mapping[str, Any]) -> bool:
    if name == "$and":
        return all(_matches(each, metadata) for each in condition)
    if name == "$or":
        return any(_matches(each, metadata) for each in condition)
    ((operator, value),) = condition.items()
    if operator == "$exists":
        return (name in metadata) is value
    if name not in metadata:
        return False  # the strictest reading: also of `$ne` and `$nin`
    found = metadata[name]
    match operator:
        case "$eq":
            return _are_equal(found, value)
        case "$ne":
            return not _are_equal(found, value)
        case "$in":
            return any(_are_equal(found, each) for each in value)
        case "$nin":
            return not any(_are_equal(found, each) for each in value)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return False
    number, limit = float(found), float(value)
    return {"$gt": number > limit, "$gte": number >= limit, "$lt": number < limit, "$lte": number <= limit}[operator]


def _are_equal(found: Any, value: Any) -> bool:
    if isinstance(found, bool) or isinstance(value, bool) or isinstance(found, str) or isinstance(value, str):
        return type(found) is type(value) and bool(found == value)
    return float(found) == float(value)


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) / (hypot(*one) * hypot(*other))


def _size(metadata: Mapping[str, Any]) -> int:
    return sum(len(name.encode()) + len(str(value).encode()) for name, value in metadata.items())


def _answer(request: AWSRequest, status: int, body: dict[str, Any], error: str | None = None) -> AWSResponse:
    headers = {"content-type": "application/json"} | ({} if error is None else {"x-amzn-errortype": error})
    return AWSResponse(request.url, status, headers, _Body(json.dumps(body).encode()))
