"""Texts with questions, of which each has one document that answers it.

`faq` is a public set of questions and answers about construction, in English and Swedish (zaragoza-construction-faq,
CC BY 4.0). `manual` has long documents: descriptions of operations by botocore, with the first sentence as the question
and the rest, with the descriptions of all fields, as the document. Both come with packages that `constraints.txt` pins.
"""

from __future__ import annotations

import gzip
import html
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import botocore
import zaragoza_construction_faq

LANGUAGES = ("en", "sv")
SERVICES = (
    "autoscaling",
    "bedrock-runtime",
    "cloudfront",
    "cognito-idp",
    "dynamodb",
    "ec2",
    "ecs",
    "elbv2",
    "glue",
    "iam",
    "lambda",
    "rds",
    "s3",
    "sagemaker",
    "secretsmanager",
    "sns",
    "sqs",
    "ssm",
)
LEAST_WORDS = 1_000
DEEPEST = 4
_DATA = Path(botocore.__file__).parent / "data"
_FIRST_SENTENCE = re.compile(r"(.+?\.)(?:\s|$)(.*)", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")


class Collection(NamedTuple):
    """Documents, and the question of each, in the same order."""

    questions: tuple[str, ...]
    documents: tuple[str, ...]


def faq(language: str) -> Collection:
    """Return the questions and answers in this language."""
    entries = zaragoza_construction_faq.load(lang=language)
    return Collection(tuple(entry["q"] for entry in entries), tuple(entry["a"] for entry in entries))


def manual() -> Collection:
    """Return long documents, each with its removed first sentence as the question."""
    found = dict(pair for service in SERVICES for pair in _operations(service))  # of equal sentences the last one
    return Collection(tuple(found), tuple(found.values()))


def _operations(service: str) -> Iterator[tuple[str, str]]:
    version = max(path for path in (_DATA / service).iterdir() if path.is_dir())
    described = json.loads(gzip.decompress((version / "service-2.json.gz").read_bytes()))
    for operation in described["operations"].values():
        first = _FIRST_SENTENCE.match(_plain(operation.get("documentation", "")))
        if first is None or "input" not in operation:
            continue
        fields = _descriptions(operation["input"]["shape"], described["shapes"], set(), 0)
        document = "\n\n".join(filter(None, (first[2], *fields)))
        if len(document.split()) >= LEAST_WORDS:
            yield first[1], document


def _descriptions(name: str, shapes: Mapping[str, Any], seen: set[str], depth: int) -> Iterator[str]:
    if name in seen or depth > DEEPEST:
        return
    seen.add(name)
    shape = shapes[name]
    yield _plain(shape.get("documentation", ""))
    for member in shape.get("members", {}).values():
        yield _plain(member.get("documentation", ""))
        yield from _descriptions(member["shape"], shapes, seen, depth + 1)
    for inner in ("member", "key", "value"):
        if inner in shape:
            yield from _descriptions(shape[inner]["shape"], shapes, seen, depth + 1)


def _plain(text: str) -> str:
    return " ".join(html.unescape(_TAG.sub(" ", text)).split())
