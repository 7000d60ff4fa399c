"""Callers: keys, tokens, tenants, roles, and refusals."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric import ec

from tests.fakes.web.issuer import AUDIENCE, ISSUER, Issuer
from tests.golden.scenarios.registry import scenario
from tests.golden.world import World


@scenario(
    "tests/e2e/access/test_callers.py",
    "tests/contract/access/test_two_tenants.py",
    "tests/contract/access/test_callers.py",
)
def with_keys(world: World) -> None:
    world.serve(auth="api_keys")
    for name, tenant in (("ann", "acme"), ("bob", "acme"), ("eve", "other")):
        world.key(name, tenant)
    world.send("GET", "/v1/health")
    for target in ("/v1/agents", "/v1/openai/v1/models", "/v1/chat/completions", "/agents/turn/get"):
        world.send("GET", target)
    for wrong in ("Basic x", "Bearer ", "Bearer ts_unknown", "Bearer x y"):
        world.send("GET", "/v1/agents", authorization=wrong)
    agent_id = world.agent("ann", name="hers")
    session = world.session(agent_id, "ann")
    world.turn(session, "hello", sender="ann")
    for sender in ("bob", "eve"):
        for method, target in (
            ("GET", f"/v1/agents/{agent_id}"),
            ("GET", session),
            ("DELETE", session),
            ("DELETE", f"/v1/agents/{agent_id}"),
            ("GET", "/v1/agents"),
            ("GET", "/v1/usage"),
        ):
            world.send(method, target, sender=sender)
        world.turn(session, "hello", sender=sender)
    world.send("POST", "/v1/batches", {}, sender="ann")


@scenario(
    "tests/contract/access/test_two_tenants.py",
    "tests/unit/access/test_access.py",
    "tests/integration/access/test_who_sees_what.py",
)
def of_one_tenant(world: World) -> None:
    """Roles and teams limit access within a tenant, and an administrator may delete every resource."""
    world.serve(auth="api_keys", owner_only=True)
    world.key("boss", roles=("admin",))
    world.key("ann", teams=("red",))
    world.key("mate", teams=("red",))
    world.key("other", teams=("blue",))
    agent_id = world.agent("ann", name="hers")
    session = world.session(agent_id, "ann")
    world.turn(session, "hello", sender="ann")
    model = {"model_id": "mine", "provider_model_id": "stub-llm"}
    for sender in ("boss", "mate", "other"):
        world.send("GET", f"/v1/agents/{agent_id}", sender=sender)
        world.send("GET", session, sender=sender)
        world.send("GET", "/v1/agents", sender=sender)
        world.send("GET", "/v1/usage", sender=sender)
        world.send("POST", "/v1/models", model, sender=sender)
        world.turn(session, "hello", sender=sender)
        world.send("DELETE", "/v1/models/mine", sender=sender)
    for sender in ("other", "mate", "boss"):
        world.send("DELETE", f"/v1/agents/{agent_id}", sender=sender)


@scenario(
    "tests/e2e/access/test_callers.py::test_a_token_of_an_issuer_is_accepted",
    "tests/integration/access/test_jwt_tokens.py",
)
def with_tokens(world: World) -> None:
    good = {"iat": 1_700_000_000, "exp": 4_000_000_000}  # judged by the machine's own clock
    with Issuer() as issuer:
        issuer.add("one", ec.generate_private_key(ec.SECP256R1()))
        world.serve(
            auth="jwt",
            jwt_issuer=ISSUER,
            jwt_audience=AUDIENCE,
            jwt_jwks_url=issuer.url,
            jwt_claims="tenant=org",
        )
        tokens = {
            "ann": good,
            "bob": {**good, "sub": "bob", "org": "other"},
            "late": {**good, "exp": 1_700_000_001},
            "of another issuer": {**good, "iss": "https://elsewhere.example"},
            "for another audience": {**good, "aud": "x"},
            "of nobody": {**good, "sub": None},
            "without a tenant": {**good, "org": None},
        }
        for name, claims in tokens.items():
            world.token(name, issuer.token("one", "ES256", **claims))
            world.send("GET", "/v1/agents", sender=name)
        session = world.session(sender="ann")
        world.turn(session, "hello", sender="ann")
        world.send("GET", session, sender="bob")
        world.send("GET", "/v1/agents", authorization="Bearer a.b.c")
    with Issuer() as gone:
        url = gone.url
        gone.add("one", ec.generate_private_key(ec.SECP256R1()))
        world.token("of an issuer that is away", gone.token("one", "ES256", **good))
    settings = {"jwt_issuer": ISSUER, "jwt_audience": AUDIENCE, "jwt_jwks_url": url, "jwt_claims": "tenant=org"}
    world.serve(auth="jwt", **settings)
    for target in ("/v1/agents", "/v1/openai/v1/models"):
        world.send("GET", target, sender="of an issuer that is away")
