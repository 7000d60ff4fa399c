"""Errors of models, see the package for the tree."""

from typing import Any

from turnstone.domain.errors.root import TurnstoneError


class ModelError(TurnstoneError):
    """Inference did not produce an answer. Its message names no address: callers read it.

    Attributes:
        is_outage: whoever provides the model can't answer now, whatever is asked.
        status: the provider's status of HTTP, None if it gave none.
        code: the provider's own word for it, None if it has none.
        provider_id: who was asked, once that is known.
        server: the address that was asked, for the log only.
    """

    is_outage = False
    status: int | None = None
    code: str | None = None
    provider_id: str | None = None
    server: str | None = None

    @property
    def told(self) -> dict[str, Any]:
        """What the log may tell of it by name: words of this server's or of a protocol's, none of a message's."""
        told = {"provider": self.provider_id, "provider_status": self.status, "provider_code": self.code}
        told["model_server"] = self.server
        cause = None if self.__cause__ is None else type(self.__cause__).__name__
        return {name: value for name, value in {**told, "cause": cause}.items() if value is not None}

    @property
    def reason(self) -> str:
        """The message without the provider's own words, for a log, which repeats nothing of a conversation."""
        return str(self)


class ModelFailed(ModelError):
    """The model refused the request or broke."""

    def __init__(
        self,
        message: str,
        *,
        is_outage: bool = False,
        quote: str = "",
        status: int | None = None,
        code: str | None = None,
    ) -> None:
        """Take the message and, to be shown after it, what the provider says itself."""
        super().__init__(f"{message}: {quote}" if quote else message)
        self.is_outage = is_outage
        self.status = status
        self.code = code
        self._reason = message

    @property
    def reason(self) -> str:
        return self._reason


class ModelBusy(ModelFailed):
    """The model's provider takes no more requests now.

    Attributes:
        retry_after_s: how long the provider asks to wait, None if it does not say.
    """

    def __init__(self, message: str, *, retry_after_s: int | None = None, **more: Any) -> None:
        super().__init__(message, **more)
        self.retry_after_s = retry_after_s


class ModelNotFound(ModelFailed):
    """The model's provider has no such model."""

    may_be_repeated = False


class ModelRefused(ModelFailed):
    """The model's provider does not accept the request, and would not accept it again."""

    may_be_repeated = False


class ModelTimedOut(ModelError):
    """The model was silent for too long."""

    is_outage = True
