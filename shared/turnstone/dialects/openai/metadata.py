"""Metadata of what OpenAI's clients store: names and values of their own."""

from typing import Annotated

from pydantic import Field

Metadata = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(
        max_length=16,
        description="Names and values of the caller's own, 16 at most, kept with what the request stores.",
        examples=[{"topic": "support"}],
    ),
]
