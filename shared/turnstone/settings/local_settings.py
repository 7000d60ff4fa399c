"""The settings of a server on one machine. Separate from the others, because no function checks addresses."""

from ipaddress import IPv4Address
from pathlib import Path
from typing import Literal

from pydantic import Field, IPvAnyAddress

from turnstone.settings.auth_settings import AuthSettings
from turnstone.settings.config import (
    KEY,
    OFFLINE,
    PREFIX,
    VISIBLE_ASCII,
    YEAR_S,
    InvalidSettings,
    ModelUrl,
    Seconds,
    in_environment,
    variable_of,
)

USUAL_FILE = Path("turnstone.toml")


class LocalSettings(AuthSettings):
    """The settings of a server on one machine.

    Attributes:
        allow_open: without authentication, answer any client that reaches the server, under any host name.
        config: the operator's file of models; default: turnstone.toml of the working directory, if it exists.
        auth_cache_seconds: how long a key or token may stay valid after it was revoked.
        payload_grace_seconds: how long a payload is kept without a record.
        store_wait_seconds: how long a write waits for other writes before it fails.
        place_wait_seconds: how long a request queues for one of the `max_running_turns` slots; 0 for no queue.
        max_waiting_requests: the maximum number of queued requests.
        max_tenant_waiting_requests: the maximum of one tenant; None for a quarter.
        unread_seconds: how long a client may leave pending data unread before its connection is closed.
        processes: the number of server processes; each runs `max_running_turns` at most.
        max_head_bytes: size limit of a request's head, and of a body's framing, such as a trailer.
        max_head_fields: limit of the number of fields of a head, and of a trailer.
        head_seconds: time for a head, from its first byte or the start of the connection.
        body_seconds: period in which a body has to bring at least 500 bytes for each second.
        max_connections: open connections of a process, fewer if its descriptors do not suffice.
    """

    host: IPvAnyAddress = IPv4Address("127.0.0.1")
    allow_open: bool = False
    auth_cache_seconds: Seconds = Field(default=10, ge=0, le=60)
    port: int = Field(default=8321, ge=0, le=65535)
    data_dir: Path = Path(".turnstone")
    config: Path | None = None
    model_url: ModelUrl = OFFLINE
    model_api_key: str | None = Field(default=None, pattern=VISIBLE_ASCII, description=KEY)
    drain_seconds: Seconds = Field(default=20, ge=0, le=3_600)
    store_wait_seconds: Seconds = Field(default=5, ge=0.1, le=60)
    place_wait_seconds: Seconds = Field(default=5, ge=0, le=60)
    max_waiting_requests: int = Field(default=1_000, ge=1, le=100_000)
    max_tenant_waiting_requests: int | None = Field(default=None, ge=1, le=100_000)
    unread_seconds: Seconds = Field(default=60, gt=0, le=3_600)
    processes: int = Field(default=1, ge=1, le=64)
    payload_grace_seconds: Seconds = Field(default=3_600, ge=1, le=YEAR_S)
    max_head_bytes: int = Field(default=65_536, ge=1_024, le=1_000_000)
    max_head_fields: int = Field(default=200, ge=10, le=10_000)
    head_seconds: Seconds = Field(default=20, ge=0.1, le=3_600)
    body_seconds: Seconds = Field(default=20, ge=0.1, le=3_600)
    max_connections: int = Field(default=4_096, ge=4, le=100_000)
    log_format: Literal["text", "json"] = "text"

    @property
    def models_file(self) -> Path | None:
        """The file of models, None without one."""
        return self.config or (USUAL_FILE if USUAL_FILE.is_file() else None)

    @property
    def tenant_waiting_requests(self) -> int:
        """Maximum of queued requests of one tenant: all of them if all callers are the same."""
        if self.auth == "off":
            return self.max_waiting_requests
        return self.max_tenant_waiting_requests or max(1, self.max_waiting_requests // 4)

    def refuse_unused_key(self) -> None:
        """Raise InvalidSettings if a key is set although this server requires none.

        For the start of a server: commands on its data may run where a client's key is exported.
        """
        if self.auth == "off" and "api_key" in in_environment():
            key = variable_of("api_key")
            raise InvalidSettings(
                f"{key}: is set, but {PREFIX}AUTH is off, so this server would require no key. To require "
                f"keys, set {PREFIX}AUTH=api_keys and make one with `turnstone keys create NAME`. If the variable "
                f"is the key of `turnstone chat` for another server, start this one without it: "
                f"env -u {key} make run"
            )

    def contradictions(self) -> list[str]:
        """Return the remaining problems: an open server requires an explicit setting."""
        wrong = super().contradictions()
        if self.auth == "off" and not self.host.is_loopback and not self.allow_open:
            how = f"set {PREFIX}AUTH, or {PREFIX}ALLOW_OPEN=true to serve everyone who can reach it"
            wrong.append(f"{variable_of('host')}: other machines could use the server without a key; {how}")
        if self.auth != "off" and self.allow_open:
            wrong.append(f"{variable_of('allow_open')}: has no effect unless {PREFIX}AUTH is off")
        if self.auth == "off" and "auth_cache_seconds" in self.model_fields_set:
            wrong.append(f"{variable_of('auth_cache_seconds')}: has no effect while {PREFIX}AUTH is off")
        for of_tenant in ("max_tenant_turns", "max_tenant_waiting_requests"):
            if self.auth == "off" and getattr(self, of_tenant) is not None:
                wrong.append(f"{variable_of(of_tenant)}: has no effect while {PREFIX}AUTH is off")
        if (self.max_tenant_waiting_requests or 0) > self.max_waiting_requests:
            most = f"{variable_of('max_waiting_requests')}, which is {self.max_waiting_requests}"
            wrong.append(f"{variable_of('max_tenant_waiting_requests')}: must not be above {most}")
        return wrong
