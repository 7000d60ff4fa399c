"""Errors of models; the tree is in the package's docstring."""

from typing import Any

from turnstone.domain.errors.root import TurnstoneError


class ModelError(TurnstoneError):
    """Inference did not produce an answer. The message names no address, because callers read it.

    Attributes:
        is_outage: whether the provider fails for every request.
        status: the provider's HTTP status, None without one.
        code: the provider's own error code, None without one.
        provider_id: the provider, once chosen.
        server: the address of the request, for the log only.
    """

    is_outage = False
    status: int | None = None
    code: str | None = None
    provider_id: str | None = None
    server: str | None = None

    @property
    def log_fields(self) -> dict[str, Any]:
        """Fields for the log: words of this server or of a protocol, none of a message."""
        log_fields = {"provider": self.provider_id, "provider_status": self.status, "provider_code": self.code}
        log_fields["model_server"] = self.server
        cause = None if self.__cause__ is None else type(self.__cause__).__name__
        return {name: value for name, value in {**log_fields, "cause": cause}.items() if value is not None}

    @property
    def reason(self) -> str:
        """The message without the provider's own text, for logs, which never repeat a conversation."""
        return str(self)


class ModelFailed(ModelError):
    """The model refused the request or failed."""

    def __init__(
        self,
        message: str,
        *,
        is_outage: bool = False,
        quote: str = "",
        status: int | None = None,
        code: str | None = None,
    ) -> None:
        """Take the message, and the provider's own text to show after it."""
        super().__init__(f"{message}: {quote}" if quote else message)
        self.is_outage = is_outage
        self.status = status
        self.code = code
        self._reason = message

    @property
    def reason(self) -> str:
        return self._reason


class ModelBusy(ModelFailed):
    """The model's provider accepts no more requests now.

    Attributes:
        retry_after_s: the delay requested by the provider, None without one.
    """

    def __init__(self, message: str, *, retry_after_s: int | None = None, **more: Any) -> None:
        super().__init__(message, **more)
        self.retry_after_s = retry_after_s


class ModelNotFound(ModelFailed):
    """The model's provider has no such model."""

    may_be_repeated = False


class ModelRefused(ModelFailed):
    """The model's provider rejects the request, and would reject it again."""

    may_be_repeated = False


class ModelTimedOut(ModelError):
    """The model sent nothing for too long."""

    is_outage = True
