"""Sets a server up as scripts for Llama Stack do, twice over. Arguments: base URL.

Reports the refusals by request, and the entries at the end.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from llama_stack_client import APIStatusError, LlamaStackClient

PROVIDERS = {
    "builtin::websearch": ("brave-search", "tavily-search"),
    "builtin::wolfram_alpha": ("wolfram-alpha",),
    "builtin::rag": ("rag-runtime",),
    "builtin::code_interpreter": ("code-interpreter",),
}


def main() -> None:
    client: Any = LlamaStackClient(base_url=sys.argv[1], max_retries=0)
    refused = {}
    for name, act in [*harmless(client), *harmless(client), *differing(client)]:
        try:
            act()
        except APIStatusError as error:
            refused[name] = [error.status_code, error.response.text]
    groups = sorted(group.identifier for group in client.toolgroups.list())
    print(json.dumps({"refused": refused, "toolgroups": groups}))
    listed = [client.models.retrieve("fast"), client.shields.retrieve("rude")]
    print(json.dumps({"listed": [[one.provider_id, one.provider_resource_id] for one in listed]}))


def harmless(client: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    for group, providers in PROVIDERS.items():
        yield f"unregister {group}", lambda group=group: client.toolgroups.unregister(group)
        for provider in providers:
            yield (
                f"register {group} {provider}",
                lambda group=group, provider=provider: client.toolgroups.register(
                    toolgroup_id=group, provider_id=provider
                ),
            )
    yield (
        "register fast",
        lambda: client.models.register(
            model_id="fast", provider_model_id="gpt-oss-20b", provider_id="local", model_type="llm", metadata={}
        ),
    )
    yield "register fast by its name", lambda: client.models.register(model_id="fast")
    yield (
        "register rude",
        lambda: client.shields.register(shield_id="rude", provider_id="pattern", params={"words": ["rude"]}),
    )
    yield "register rude by its name", lambda: client.shields.register(shield_id="rude")


def differing(client: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "another model", lambda: client.models.register(model_id="fast", provider_model_id="other")
    yield "another provider", lambda: client.models.register(model_id="fast", provider_id="offline")
    yield "other metadata", lambda: client.models.register(model_id="fast", metadata={"context_tokens": 1})
    yield (
        "another shield",
        lambda: client.shields.register(shield_id="rude", provider_id="pattern", params={"words": ["other"]}),
    )
    yield (
        "another provider of a group",
        lambda: client.toolgroups.register(toolgroup_id="builtin::websearch", provider_id="wolfram-alpha"),
    )
    yield (
        "arguments of a group",
        lambda: client.toolgroups.register(
            toolgroup_id="builtin::websearch", provider_id="brave-search", args={"max_results": 5}
        ),
    )
    yield "a group of the file", lambda: client.toolgroups.unregister("mcp::wiki")


main()
