"""Start of a verb of `turnstone memory` by its options, and its exit status."""

import argparse
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import NoReturn

from turnstone.settings.client_settings import load_client_settings
from turnstone.settings.config import InvalidSettings

from ..chat.screen import visible
from ..client import Client, CommandFailed
from ..options import FAILED, INTERRUPTED
from ..output import print_json, print_line
from .adding import FileAddition
from .banks import RemoteBank, all_banks, bank_named, made_bank, other_banks
from .deferred_interrupts import DeferredInterrupts
from .local_files import UnusablePath, chosen_files, path_in_bank
from .progress import AdditionProgress
from .showing import added_lines, bank_lines, file_lines, other_bank_lines, result_lines

Misuse = Callable[[str], NoReturn]


def run_memory(options: argparse.Namespace, misuse: Misuse) -> int:
    """Run the verb and return its exit status; `misuse` ends the process with a message about the usage."""
    verbs = {"add": _add, "search": _search, "list": _list, "remove": _remove}
    try:
        with closing(Client(load_client_settings(options.url, options.api_key))) as client:
            return verbs[options.verb](options, client)
    except (InvalidSettings, UnusablePath) as problem:
        misuse(visible(str(problem)))
    except CommandFailed as problem:
        _report(str(problem))
        return FAILED


def _add(options: argparse.Namespace, client: Client) -> int:
    files = chosen_files(options.files, is_recursive=options.recursive)
    bank = bank_named(client, options.bank)
    is_new = bank is None
    bank = bank or made_bank(client, options.bank)
    is_silent = options.quiet or options.json
    with DeferredInterrupts() as interrupts, AdditionProgress(sys.stderr, len(files), is_silent=is_silent) as progress:
        adding = FileAddition(bank, progress, interrupts, options.timeout)
        try:
            adding.add(files)
        except KeyboardInterrupt:
            adding.withdraw()
            print("turnstone: interrupted; files that were not finished are not in the bank", file=sys.stderr)
            return INTERRUPTED
        finally:
            progress.close()
            failed = [outcome for outcome in adding.outcomes if outcome.error is not None]
            for outcome in failed:
                _report(f"{outcome.path}: {outcome.error}")
    if options.json:
        rows = [outcome.row for outcome in adding.outcomes]
        print_json({"bank_id": bank.bank_id, "bank": bank.name, "is_new": is_new, "files": rows})
    elif not options.quiet:
        _print(added_lines(bank, adding.outcomes))
    return FAILED if failed else 0


def _search(options: argparse.Namespace, client: Client) -> int:
    results = _existing(client, options.bank).results(options.question, options.limit)
    if options.json:
        print_json([result._asdict() for result in results])
    else:
        _print(result_lines(results))
    return 0


def _list(options: argparse.Namespace, client: Client) -> int:
    if options.bank is None:
        banks, others = list(all_banks(client)), other_banks(client)
        if options.json:
            rows = [{"bank_id": bank.bank_id, "bank": bank.name, "kind": "vector", **bank.counts} for bank in banks]
            rows += [{"bank_id": bank.bank_id, "bank": bank.name, "kind": bank.kind} for bank in others]
            print_json(rows)
        else:
            _print(bank_lines(banks))
            _print(other_bank_lines(others))
        return 0
    files = list(_existing(client, options.bank).files())
    if options.json:
        print_json([file.row for file in files])
    else:
        _print(file_lines(files))
    return 0


def _remove(options: argparse.Namespace, client: Client) -> int:
    if options.all == bool(options.files):
        raise UnusablePath("name files to remove, or --all for the bank with all of them")
    bank = _existing(client, options.bank)
    if options.all:
        bank.delete()
        if options.json:
            print_json({"bank_id": bank.bank_id, "bank": bank.name, "is_removed": True})
        else:
            print_line(visible(f"removed the bank {bank.name}"))
        return 0
    kept = list(bank.files())
    rows = []
    for name in dict.fromkeys(options.files):
        found = [file for file in kept if name == file.file_id or path_in_bank(name) == file.path]
        for file in found:
            bank.remove(file)
        rows.append({"path": name, "status": "removed" if found else "missing"})
        if not found:
            _report(f"{name}: the bank has no such file; `turnstone memory list` prints its paths")
    if options.json:
        print_json({"bank_id": bank.bank_id, "bank": bank.name, "files": rows})
    else:
        _print(f"removed {row['path']}" for row in rows if row["status"] == "removed")
    return FAILED if any(row["status"] == "missing" for row in rows) else 0


def _existing(client: Client, name: str) -> RemoteBank:
    """Return the bank of that name or id. Raises CommandFailed."""
    bank = bank_named(client, name)
    if bank is None:
        for other in other_banks(client):
            if name in (other.bank_id, other.name):
                problem = f"{name!r} is a {other.kind} bank, which has no files; the routes below /v1/memory-banks"
                raise CommandFailed(f"{problem} read and change its documents.")
        raise CommandFailed(f"there is no bank {name!r}. `turnstone memory list` prints the banks.")
    return bank


def _report(problem: str) -> None:
    print(f"turnstone: {visible(problem)}", file=sys.stderr)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print_line(visible(line))
