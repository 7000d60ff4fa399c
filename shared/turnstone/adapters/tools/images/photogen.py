"""Toolgroup `builtin::photogen`: images from the model that the operator configured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from threading import Timer

from turnstone.adapters.tools.images.images import ImageModel, ImageRequest, kind_of
from turnstone.adapters.tools.web.json_service import query_of
from turnstone.domain.errors import ModelError, StoreUnavailable, ToolFailed, Unsupported
from turnstone.domain.tools.tool_runs import ProducedFile, ToolAsker, ToolInvocation, ToolResult
from turnstone.domain.tools.tools import ToolDef, ToolParameter
from turnstone.domain.values.cancellation import StopSignal

SEEDS = 2**29  # accepted by every model with seeds
PHOTOGEN = ToolDef(
    name="photogen",
    description="Make an image of what a text describes. The user is given it as a file.",
    parameters=(ToolParameter(name="query", parameter_type="string", description="What is to be seen in the image."),),
)


class PhotogenToolbox:
    """Generates images."""

    def __init__(self, model: Callable[[], ImageModel]) -> None:
        """Take the factory of the image model, called at the first image."""
        self._model = model

    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:  # noqa: ARG002 - the same for every caller
        """Return the toolgroup's only tool."""
        return (PHOTOGEN,)

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        """Return the image as a file, and its description for the model. Raises ToolFailed."""
        # a repeated run after a crash generates the same image, where the model supports seeds
        digest = sha256(invocation.idempotency_key.encode("utf-8", "surrogatepass")).digest()
        prompt, seed = query_of(invocation), int.from_bytes(digest[:4]) % SEEDS
        with _stopped_in_time(invocation) as stop:
            try:
                image = self._model().generate(ImageRequest(prompt, seed, invocation.asker.provider_data, stop))
                kind = kind_of(image)
            except (ModelError, StoreUnavailable, Unsupported) as failure:
                if stop.is_set:
                    raise ToolFailed(f"the image was not made in {invocation.timeout_s:g} s") from failure
                raise ToolFailed(str(failure)) from failure
        file = ProducedFile(f"photogen-{digest.hex()[:12]}{kind.suffix}", kind.mime_type, image)
        message = (
            f"Made the image {file.name} ({kind.mime_type}, {len(image)} bytes). The user is given it with the answer."
        )
        return ToolResult(message, files=(file,))


@contextmanager
def _stopped_in_time(invocation: ToolInvocation) -> Iterator[StopSignal]:
    """Within the block, return a signal that is set when the call is cancelled or takes too long."""
    stop = StopSignal()
    timer = Timer(invocation.timeout_s, stop.set)
    timer.daemon = True
    timer.start()
    try:
        with (invocation.stop or StopSignal()).heeded_by(stop.set):
            yield stop
    finally:
        timer.cancel()
        timer.join()
