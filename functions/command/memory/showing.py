"""Lines of `turnstone memory` for people."""

from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import indent

from .adding import AdditionResult, FileOutcome
from .banks import BankFile, FoundText, OtherBank, RemoteBank

RESULTS: tuple[AdditionResult, ...] = ("added", "replaced", "unchanged", "failed")


def added_lines(bank: RemoteBank, outcomes: Sequence[FileOutcome]) -> Iterator[str]:
    """Yield one line: the numbers of files by their result, and the bank's name and id."""
    counts = Counter(outcome.result for outcome in outcomes)
    numbers = ", ".join(f"{counts[result]} {result}" for result in RESULTS if counts[result])
    yield f"{bank.name}: {numbers}  id={bank.bank_id}"


def bank_lines(banks: Sequence[RemoteBank]) -> Iterator[str]:
    """Yield a line for each bank: name, files, id."""
    for bank in banks:
        others = ", ".join(f"{bank.counts[name]} {name}" for name in ("in_progress", "failed") if bank.counts[name])
        yield f"{bank.name}  files={bank.counts['completed']}{others and f' ({others})'}  id={bank.bank_id}"


def other_bank_lines(banks: Sequence[OtherBank]) -> Iterator[str]:
    """Yield a line for each bank without files: name, kind, id."""
    return (f"{bank.name}  kind={bank.kind}  id={bank.bank_id}" for bank in banks)


def file_lines(files: Sequence[BankFile]) -> Iterator[str]:
    """Yield a line for each file: path, status, bytes, id, and the reason of a failure."""
    for file in files:
        reason = "" if file.error is None else f"  {file.error}"
        yield f"{file.path}  {file.status}  bytes={file.size_bytes}  id={file.file_id}{reason}"


def result_lines(results: Sequence[FoundText]) -> Iterator[str]:
    """Yield the source and the score of each result, and its text below."""
    for number, result in enumerate(results, 1):
        yield f"{number}. {result.source}  score={result.score:.2f}"
        yield indent(result.text, "   ")
    if not results:
        yield "nothing found"
