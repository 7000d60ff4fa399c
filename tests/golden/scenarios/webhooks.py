"""Webhooks: created, listed, changed, tested, with their deliveries, and deleted."""

from __future__ import annotations

from tests.golden.scenarios.registry import scenario
from tests.golden.world import World

PATH = "/v1/webhooks"


@scenario("tests/e2e/webhooks/test_webhooks.py", "tests/integration/webhooks/test_deliveries.py")
def webhooks(world: World) -> None:
    world.serve()
    made = world.post(PATH, {"url": "https://hooks.example/turnstone", "event_types": ["turn.completed"]})["webhook_id"]
    world.get(PATH)
    world.get(f"{PATH}/{made}")
    world.send("POST", f"{PATH}/{made}", {"description": "the pager"})
    world.send("POST", f"{PATH}/{made}/rotate_secret")
    tested = world.post(f"{PATH}/{made}/test", None)["delivery_id"]
    world.get(f"{PATH}/{made}/deliveries")
    world.send("POST", f"{PATH}/{made}/deliveries/{tested}/resend")
    world.send("POST", f"{PATH}/{made}/deliveries/none/resend")
    world.send("DELETE", f"{PATH}/{made}")
    world.send("GET", f"{PATH}/{made}")
    world.send("POST", PATH, {"url": "ftp://hooks.example", "event_types": ["turn.completed"]})
