"""Conversations of responses: created, answered in, read, changed and deleted, with their items."""

from __future__ import annotations

from tests.golden.scenarios.registry import scenario
from tests.golden.scenarios.responses import RESPONSES, request_of
from tests.golden.world import World

PATH, SHORT = "/v1/openai/v1/conversations", "/v1/conversations"
HELLO = {"type": "message", "role": "user", "content": "hello"}


@scenario(
    "tests/integration/responses/conversations/test_conversations.py",
    "tests/integration/responses/conversations/test_deleted_items.py",
)
def conversations(world: World) -> None:
    world.serve(responses_ttl_s=3_600)
    made = world.post(PATH, {"metadata": {"topic": "birds"}, "items": [HELLO]})["id"]
    world.post(RESPONSES, request_of("and now", conversation=made))
    world.send("POST", f"{PATH}/{made}/items", {"items": [{**HELLO, "content": "more"}]})
    for path in (PATH, SHORT):
        world.get(f"{path}/{made}")
    items = world.get(f"{PATH}/{made}/items?limit=3")["data"]
    world.get(f"{SHORT}/{made}/items/{items[0]['id']}")
    world.send("POST", f"{PATH}/{made}", {"metadata": {"topic": "herons"}})
    world.send("DELETE", f"{PATH}/{made}/items/{items[0]['id']}")
    world.get(f"{PATH}/{made}/items")
    world.send("POST", RESPONSES, request_of("after the deletion", conversation=made))
    world.send("DELETE", f"{PATH}/{made}")
    world.work()
    for method, target in (("GET", ""), ("GET", "/items"), ("GET", f"/items/{items[1]['id']}"), ("DELETE", "")):
        world.send(method, f"{PATH}/{made}{target}")
