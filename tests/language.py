"""Private idioms that code avoids, in identifiers and in prose, each with the field's word."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.docs.idioms import Idiom

PROSE = (
    Idiom(r"tells?|told|telling|untold", "emit, report, return, name, state; pending"),
    Idiom(r"say|says|said|saying", "message, state, show, return"),
    Idiom(r"asks?|asked|asking", "request, call, query, prompt"),
    Idiom(r"knows?|known|knew", "configured, cached, recognised, defined"),
    Idiom(r"wants?|wanted", "need, require, query"),
    Idiom(r"(?<!in )(?<!in their )(?<!in its )places?|placed", "slot, position, environment"),
    Idiom(r"stamp(?:s|ed|ing)?", "owner and access list"),
    Idiom(r"lanes?", "thread pool"),
    Idiom(r"look(?:s|ed|ing)? (?:again|after|at|for)", "poll, check, supervise, search"),
    Idiom(r"attend(?:s|ed|ing)?", "reconcile"),
    Idiom(r"hand(?:s|ed|ing)? (?:\w+ )?(?:over|out|on|back)", "hand off, pass, return"),
    Idiom(r"(?:go|goes|gone|going|went) on", "resume, continue"),
    Idiom(r"(?:give|gives|given|giving|gave) (?:\w+ ){0,2}(?:up|back)", "cancel, release"),
    Idiom(r"hears?|heard|hearing", "receive"),
    Idiom(r"what (?:is|are|was|were|has|had|may|can|it|they|no)", "a noun: the value, the settings, the request"),
    Idiom(r"who(?:ever|soever|mever|m)?|whosever", "the caller, the user, the process"),
    Idiom(r"(?:no|some|every|any)body", "no caller, a caller, every caller"),
    Idiom(
        r"for ever|be it|shall|anew|once more|in vain|at hand|meanwhile", "forever, or, must, again, without success"
    ),
    Idiom(r"broken off|br(?:eaks?|oke) (?:\w+ )?off", "cancelled, aborted"),
    Idiom(r"exhibit(?:s|ed)?", "excerpt for moderation"),
)
# matched against identifiers whose words are joined by spaces
NAMES = (
    Idiom(r"tells?|told|untold", "emit, report, pending"),
    Idiom(r"say|says|said", "message, text"),
    Idiom(r"asks?|asked|asking", "request, call"),
    Idiom(r"known(?! error)", "configured, cached, registered"),
    Idiom(r"wants?|wanted", "query, expected"),
    Idiom(r"places?|placed", "slot, position, location"),
    Idiom(r"means|meant", "dependencies"),
    Idiom(r"stamp(?:s|ed)?", "owner, timestamp"),
    Idiom(r"lanes?", "pool"),
    Idiom(r"looks?|looked", "check, poll, lookup"),
    Idiom(r"attend(?:s|ed)?", "reconcile"),
    Idiom(r"handed|gave|give (?:up|back)|given up", "passed, released, cancelled"),
    Idiom(r"hears?|heard", "received"),
    Idiom(r"who(?:m|ever)?|nobody|somebody|anew|shall|exhibit(?:s|ed)?", "a subject"),
)


class Found(NamedTuple):
    """An idiom in a file.

    Attributes:
        text: the identifier, or the line of prose.
        instead: the words to use.
    """

    file: str
    line: int
    text: str
    instead: str


def found_in(source: str, file: str, allowed: frozenset[str] = frozenset()) -> Iterator[Found]:
    """Yield the idioms in the names, docstrings, comments and log messages of a module."""
    nodes = tuple(ast.walk(ast.parse(source)))
    for line, name in _names(nodes):
        words = " ".join(re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)).lower()
        yield from (Found(file, line, name, i.instead) for i in _matching(NAMES, words) if name not in allowed)
    for line, text in (*_comments(source), *_texts(nodes)):
        without_code = re.sub(r"`[^`]*`", "", text)
        without_allowed = re.sub("|".join(map(re.escape, sorted(allowed))) or "(?!)", "", without_code)
        yield from (Found(file, line, text, i.instead) for i in _matching(PROSE, without_allowed))


def _matching(idioms: tuple[Idiom, ...], text: str) -> Iterator[Idiom]:
    if not _any_of(idioms).search(text):  # most texts have none
        return iter(())
    return (idiom for idiom in idioms if re.search(rf"\b(?:{idiom.pattern})\b", text, re.IGNORECASE))


@cache
def _any_of(idioms: tuple[Idiom, ...]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(idiom.pattern for idiom in idioms)})\b", re.IGNORECASE)


def _names(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a source, if one may contain an idiom: few do, and tokens take long."""
    if not any(_any_of(PROSE).search(line.partition("#")[2]) for line in source.splitlines()):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _texts(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if (text := ast.get_docstring(node)) is not None:
                yield from ((node.body[0].lineno + number, line) for number, line in enumerate(text.split("\n")))
        elif isinstance(node, ast.Call) and _is_of_a_logger(node.func):
            match node.args:
                case [ast.Constant(value=str(text)), *_]:
                    yield node.lineno, text


def _is_of_a_logger(function: ast.expr) -> bool:
    while isinstance(function, ast.Attribute):
        if isinstance(function.value, ast.Name):
            return function.value.id in ("log", "logger")
        function = function.value
    return False


def modules(root: Path, folders: tuple[str, ...]) -> Iterator[Path]:
    """Yield the modules of the folders and of their subfolders; a folder may be a pattern such as `tests/*.py`."""
    for folder in folders:
        yield from sorted(root.glob(folder if folder.endswith(".py") else f"{folder}/**/*.py"))
