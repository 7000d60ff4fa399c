"""Files and uploads: sent, listed, read, expired and deleted."""

from __future__ import annotations

from typing import Any

from tests.golden.scenarios.registry import scenario
from tests.golden.world import World
from tests.support.clients.forms import FORM_TYPE, form_of

FILES, UPLOADS = "/v1/openai/v1/files", "/v1/openai/v1/uploads"
TEXT = b"Herons nest in colonies.\n"
EXPIRES = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}


def sent(world: World, target: str, fields: dict[str, str], content: bytes = TEXT, **of_file: str) -> Any:
    """Send a form and return the JSON of the answer."""
    return world.send("POST", target, raw=form_of(fields, content, **of_file), content_type=FORM_TYPE).json()


@scenario(
    "tests/contract/files/test_files.py",
    "tests/e2e/files/test_file_clients.py",
    "tests/integration/files/test_files.py",
)
def sent_whole(world: World) -> None:
    world.serve()
    small = sent(world, FILES, {"purpose": "assistants", **EXPIRES}, filename="herons.txt")
    other = sent(world, "/v1/files", {"purpose": "user_data"}, filename="more herons.txt", media_type="")
    sent(world, FILES, {"purpose": "nonsense"})
    sent(world, FILES, {"purpose": "batch", "expires_after[seconds]": "5"})
    world.send("POST", FILES, {"purpose": "batch"})
    world.get(FILES)
    world.get(f"{FILES}?limit=1&order=asc&purpose=user_data")
    world.get(f"{FILES}/{small['id']}")
    world.send("GET", f"{FILES}/{small['id']}/content")
    world.send("GET", f"/v1/files/{other['id']}/content")
    world.pass_time(3_700)
    world.send("GET", f"{FILES}/{small['id']}")
    for _ in range(2):
        world.send("DELETE", f"{FILES}/{other['id']}")
    world.work()
    world.pass_time(180)
    world.work()


@scenario("tests/contract/files/test_uploads.py", "tests/integration/files/test_uploads.py")
def sent_in_parts(world: World) -> None:
    world.serve()
    new = {"bytes": 2 * len(TEXT), "filename": "herons.txt", "mime_type": "text/plain", "purpose": "batch"}
    upload = world.post(UPLOADS, new)["id"]
    first, second = (sent(world, f"{UPLOADS}/{upload}/parts", {}, TEXT, name="data")["id"] for _ in range(2))
    world.send("POST", f"{UPLOADS}/{upload}/complete", {"part_ids": [first]})
    world.post(f"{UPLOADS}/{upload}/complete", {"part_ids": [second, first]})
    world.post(f"{UPLOADS}/{upload}/complete", {"part_ids": [second, first]})
    world.send("POST", f"{UPLOADS}/{upload}/cancel")
    cancelled = world.post("/v1/uploads", new)["id"]
    world.send("POST", f"/v1/uploads/{cancelled}/cancel")
    sent(world, f"/v1/uploads/{cancelled}/parts", {}, TEXT, name="data")
    world.post(UPLOADS, new)
    world.pass_time(3_700)
    world.work()
    world.pass_time(180)
    world.work()
