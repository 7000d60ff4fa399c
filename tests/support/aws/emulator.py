"""An emulated cloud: ministack as a process of its own, on loopback.

`python -m tests.support.aws.emulator INTERPRETER COMMAND…` runs a command beside a fresh emulator that has a table and
a bucket for `tests/contract/store/test_real_table.py`. INTERPRETER is a Python that has ministack installed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

import botocore.session

from tests.support.aws.dynamo_table import create_table
from tests.support.server.servers import HOST, SHOWN_LOG_CHARACTERS, START_TIMEOUT_S, free_port, get_json, wait_until

REGION = "eu-central-1"
# The one key with a caller built into the emulator, so that it has an account and an ARN.
KEY_ID = SECRET = "test"
TABLE = "turnstone"
BUCKET = "turnstone-blobs"


class EmulatorProcess:
    """ministack, empty, while the `with` block lasts; its log is shown when the test fails.

    It runs functions in its own interpreter, and they inherit its environment: so that is made for the purpose, and
    has nothing of this process's. All its output goes to a folder that is removed.
    """

    def __init__(self, interpreter: Path, **settings: str) -> None:
        """Prepare an emulator.

        Args:
            interpreter: a Python in whose environment ministack is installed.
            settings: further variables of its environment; `SFN_WAIT_SCALE="0.1"` shortens the waits of state machines.
        """
        self.port = free_port()
        self._interpreter = interpreter.absolute()
        self._settings = settings
        self._folder = tempfile.TemporaryDirectory(prefix="emulator-", ignore_cleanup_errors=True)
        self._log_path = Path(self._folder.name) / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._clients: dict[str, Any] = {}

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def log(self) -> str:
        """Its output so far, with that of the functions it runs."""
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    @property
    def environment(self) -> dict[str, str]:
        """An environment in which processes use the emulator as the cloud, and no other endpoint."""
        return cloud_environment(self.url)

    def client(self, service: str) -> Any:
        """Return the client of one of its services."""
        if service not in self._clients:
            session = botocore.session.Session()
            session.set_credentials(KEY_ID, SECRET)
            self._clients[service] = session.create_client(service, region_name=REGION, endpoint_url=self.url)
        return self._clients[service]

    def __enter__(self) -> Self:
        try:
            self._start()
            wait_until(self._answers, START_TIMEOUT_S, "the emulator did not answer")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._end()

    def _start(self) -> None:
        folder = self._folder.name
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "TMPDIR": folder,
            "BIND_HOST": HOST,
            "GATEWAY_PORT": str(self.port),
            "MINISTACK_REGION": REGION,
            "STATE_DIR": folder,
            "S3_DATA_DIR": folder,
            "IOT_MTLS_ENABLED": "0",  # it would listen on a port of its own
            "DOCKER_HOST": "unix:///nowhere",
            **self._settings,
        }
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._interpreter), "-m", "ministack"],
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,  # its functions' processes end with it
            )

    def _answers(self) -> bool:
        assert self._process is not None
        exit_code = self._process.poll()
        assert exit_code is None, f"the emulator ended with {exit_code}: {self.log}"
        return get_json(self.port, "/_ministack/health") is not None

    def _end(self) -> None:
        if self._process is not None and self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        print(f"--- log of the emulator at {self.url}\n{self.log[-SHOWN_LOG_CHARACTERS:]}")
        self._folder.cleanup()


def cloud_environment(url: str) -> dict[str, str]:
    """Return an environment in which processes use the URL as the cloud, and no other endpoint."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TURNSTONE_"))}
    return {
        **inherited,
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def main(arguments: list[str]) -> int:
    """Run the command beside a fresh emulator; return its exit code."""
    interpreter, *command = arguments
    with EmulatorProcess(Path(interpreter)) as emulator:
        create_table(emulator.client("dynamodb"), TABLE)
        location = {"LocationConstraint": REGION}
        emulator.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration=location)
        chosen = {"TURNSTONE_TEST_TABLE": TABLE, "TURNSTONE_TEST_BUCKET": BUCKET}
        return subprocess.run(command, env={**emulator.environment, **chosen}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
