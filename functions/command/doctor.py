"""`turnstone doctor`: checks of the server that would start here, each problem with its remedy."""

import argparse
import errno
import http.client
import json
import sys
from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from turnstone.settings.config import load_settings, names_a_table, variable_of

from .options import FAILED, Commands, add_json, add_tenant
from .output import print_json, print_line

if TYPE_CHECKING:
    from turnstone.bootstrap.places.diagnosis import Finding
    from turnstone.settings.local_settings import LocalSettings

DESCRIPTION = """Check the server that would start in the working folder: settings, address, data folder, model servers,
vectors, stores of banks, keys and tools; with TURNSTONE_TABLE, that table. Nothing is created or changed. Exit status 1
if a check fails."""
TIMEOUT_S = 5.0
MAX_BYTES = 65_536


def add_doctor(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "doctor", help="check settings, data, models, vectors, keys and tools", description=DESCRIPTION
    )
    add_json(parser, "an object with `ok` and `findings`; of each finding check, status, message and remedy")
    add_tenant(parser)
    parser.set_defaults(run=_check)


def _check(options: argparse.Namespace) -> None:
    from turnstone.bootstrap.places.diagnosis import local_findings, table_findings

    findings = []
    for finding in table_findings(options.tenant) if names_a_table() else _with_address(local_findings(options.tenant)):
        findings.append(finding)
        if not options.json:
            print_line(_lines(finding), at_once=True)
    failed = [finding for finding in findings if finding.status == "failed"]
    if options.json:
        print_json({"ok": not failed, "findings": [finding._asdict() for finding in findings]})
    else:
        checks = "check" if len(failed) == 1 else "checks"
        print_line(f"{len(failed)} {checks} failed" if failed else "no check failed")
    if failed:
        sys.exit(FAILED)


def _with_address(findings: "Iterator[Finding]") -> "Iterator[Finding]":
    """Yield the findings, and that of the address after those of valid settings."""
    from turnstone.settings.local_settings import LocalSettings

    for finding in findings:
        yield finding
        if finding.check == "settings" and finding.status != "failed":
            yield _address(load_settings(LocalSettings))


def _address(settings: "LocalSettings") -> "Finding":
    from turnstone.bootstrap.places.diagnosis import Finding

    from ..local.server import listen

    address = f"{settings.host}, port {settings.port}"
    variables = f"{variable_of('host')} and {variable_of('port')}"
    try:
        listen(settings.host, settings.port).close()
    except OSError as problem:
        if problem.errno == errno.EADDRINUSE and _answers_as_turnstone(settings):
            return Finding("address", "ok", f"{address}: a Turnstone server answers")
        remedy = f"end the program that uses it, or change {variables}"
        return Finding("address", "failed", f"{address}: {problem.strerror}", remedy)
    return Finding("address", "ok", f"{address}: free")


def _answers_as_turnstone(settings: "LocalSettings") -> bool:
    """Return whether the answer to a health check, with or without authentication, is one of this API."""
    host = settings.host
    if host.is_unspecified:
        host = IPv4Address("127.0.0.1")
    connection = http.client.HTTPConnection(str(host), settings.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/v1/health")
        body = json.loads(connection.getresponse().read(MAX_BYTES))
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()
    return isinstance(body, dict) and (body == {"status": "OK"} or body.get("code") == "unauthenticated")


def _lines(finding: "Finding") -> str:
    line = f"{finding.status:<8} {finding.check:<9} {finding.message}"
    return f"{line}\n{'':18} → {finding.remedy}" if finding.remedy else line
