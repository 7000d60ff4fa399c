"""A function has exactly the rights it uses: its policies beside the calls recorded from its handler.

Covers: template.yaml, tests/integration/rights
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.rights.calls import KEYS, TABLE_ARN, Call, machine_arn
from tests.integration.rights.policies import Rights
from tests.integration.rights.recorded import chosen_plays, compared, joined, load, record
from tests.integration.rights.stage import CLAUDE, MODEL_KEY, PROVIDER_KEY, full_template
from tests.support.aws.cloudformation import template
from turnstone.domain.refs import SessionRef
from turnstone.store.layout import keys as keys_of

BASIC = {
    "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole",
    "arn:aws:iam::aws:policy/AWSXrayWriteOnlyAccess",
}
POLLS = "arn:aws:iam::aws:policy/service-role/AWSLambdaSQSQueueExecutionRole"
WRITES = ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "ConditionCheckItem")
OPTIONAL = {"bedrock", "bedrock-agentcore", "secretsmanager", "ssm"}
NAMES_NOTHING = "bedrock:InvokeGuardrailChecks"  # checks without a guardrail are no resource
MACHINE = "TurnSupervisor"
# Source: the service authorization reference defines no resource for these; a machine that logs needs them all
LOGS = {
    f"logs:{verb}"
    for verb in (
        "CreateLogDelivery",
        "DeleteLogDelivery",
        "DescribeLogGroups",
        "DescribeResourcePolicies",
        "GetLogDelivery",
        "ListLogDeliveries",
        "PutResourcePolicy",
        "UpdateLogDelivery",
    )
}


def holders(made: Any) -> tuple[str, ...]:
    """Return the functions and the state machine."""
    return (*made.functions, MACHINE)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_functions_make_no_other_calls_than_the_recorded_ones() -> None:
    """One scenario in six. If this fails: run `make rights` and review the changes."""
    scenarios = list(dict.fromkeys(play.split(",")[0] for play in chosen_plays()))[::6]
    plays = [play for play in chosen_plays() if play.split(",")[0] in scenarios]
    made = record(frozenset(plays).__contains__)
    assert list(made) == plays
    recorded = load()
    unrecorded = {name: sorted({*calls} - {*recorded[name]}) for name, calls in joined(made).items()}
    assert {name: calls for name, calls in unrecorded.items() if calls} == {}


@pytest.mark.nightly
@pytest.mark.parametrize("plays", [pytest.param(chosen_plays(), id="chosen"), pytest.param(None, id="all")])
@pytest.mark.timeout(900)
def test_functions_make_the_recorded_calls(plays: list[str] | None) -> None:
    """If this fails: run `make rights` and review the changes."""
    made = record() if plays is None else record(frozenset(plays).__contains__)
    assert plays is None or list(made) == plays
    assert joined(made) == load()


def test_a_turn_in_the_background_has_its_execution_started_by_the_request_that_queues_it() -> None:
    (calls,) = record("background 0".__eq__).values()
    starts = {name for name, made in calls.items() if any(call.action == "states:StartExecution" for call in made)}
    assert starts == {"CreateTurn"}
    assert {"CreateTurn", "RunTurn"} <= calls.keys()


@pytest.mark.parametrize("parameters", [{}, {"Auth": "AWS_IAM"}, {"StreamingMode": "adapter"}])
def test_functions_have_exactly_the_rights_they_use(parameters: dict[str, str]) -> None:
    recorded = load()
    if parameters.get("Auth"):
        recorded["Authorize"] = []  # only the gateway calls it
    for name, (missing, surplus) in compared(full_template(**parameters), recorded).items():
        assert (name, missing, surplus) == (name, [], [])


def test_a_call_without_its_right_is_missing_and_an_unused_right_is_surplus() -> None:
    recorded = load()
    foreign = Call("s3:PutObject", "arn:aws:s3:::another/blobs/…")
    recorded["GetAgent"] = [*recorded["GetAgent"][1:], foreign]
    missing, surplus = compared(full_template(), recorded)["GetAgent"]
    assert missing == [foreign]
    assert [grant.action for grant in surplus] == ["dynamodb:GetItem"]


def test_resources_that_no_parameter_names_may_not_be_used() -> None:
    made = template()
    for name in made.functions:
        services = {grant.action for grant in Rights(made, name).allowed if grant.action.split(":")[0] in OPTIONAL}
        assert services <= {NAMES_NOTHING}
    calls = {name: [c for c in calls if c.action.split(":")[0] not in OPTIONAL] for name, calls in load().items()}
    for name, calls_of_name in calls.items():
        assert Rights(made, name).missing(calls_of_name) == [], name


def test_every_policy_has_a_statement_for_all_parameters() -> None:
    for made in (template(), template(ModelApiKeySecretArn=MODEL_KEY), template(ModelsParameter="/m"), full_template()):
        for name, policy in made.of_type("AWS::IAM::ManagedPolicy").items():
            assert policy["PolicyDocument"]["Statement"], name
        for holder in holders(made):
            assert {p["Ref"] for p in made.role(holder)["ManagedPolicyArns"] if isinstance(p, dict)} <= {
                *made.resources
            }


def test_of_awss_own_policies_a_function_has_those_that_run_it() -> None:
    made = full_template()
    for name in made.functions:
        own = {policy for policy in made.role(name)["ManagedPolicyArns"] if isinstance(policy, str)}
        assert own == (BASIC | {POLLS} if name in ("CleanUp", "Ingest") else BASIC), name


def test_rights_are_for_one_resource_each() -> None:
    made = full_template()
    for holder in holders(made):
        for grant in Rights(made, holder).allowed:
            assert "*" not in grant.action
            if "*" in grant.resources:
                assert grant.action in {NAMES_NOTHING, *LOGS}, holder
            elif grant.action == "secretsmanager:GetSecretValue":
                assert set(grant.resources) <= {MODEL_KEY, PROVIDER_KEY}


def test_a_model_that_is_not_named_may_not_be_called() -> None:
    rights = Rights(
        full_template(BedrockModelArns="arn:aws:bedrock:eu-central-1::foundation-model/other"), "CreateTurn"
    )
    (model_call,) = {
        call for call in load()["CreateTurn"] if call.action == "bedrock:InvokeModel" and CLAUDE in call.resource
    }
    assert not rights.allow(model_call)


def test_no_role_has_more_policies_than_a_role_takes() -> None:
    """Source: the quotas of IAM, 10; one is left for a policy that a private network would add."""
    made = full_template()
    roles = [made.role(name) for name in made.functions]
    assert max(len(role["ManagedPolicyArns"]) for role in roles) <= 9


# ---- rights over keys


def forged(key: str) -> list[Call]:
    return [Call(f"dynamodb:{verb}", TABLE_ARN, ((KEYS, (key,)),)) for verb in WRITES]


def test_no_function_can_make_change_or_delete_a_key() -> None:
    made = full_template()
    hashed, listed_key = keys_of.api_key_key("0" * 64), keys_of.api_key_list_key("acme", "k")
    beside = Call("dynamodb:BatchWriteItem", TABLE_ARN, ((KEYS, ("acme|session:a:s", hashed.pk)),))
    for holder in holders(made):
        rights = Rights(made, holder)
        for call in (*forged(hashed.pk), *forged(listed_key.pk), beside):
            if call.action != "dynamodb:ConditionCheckItem":  # it writes nothing
                assert not rights.allow(call), (holder, call)


def test_no_other_record_is_taken_for_a_key_whatever_its_ids() -> None:
    """The denial goes by patterns, so nothing that a caller names may match them."""
    odd = ("apikey:x", "apikeys", "x|apikeys", "|apikeys", "apikey", "a:b|apikeys")
    rights = Rights(full_template(), "CreateTurn")
    for tenant in odd:
        for name in odd:
            ref = SessionRef(tenant=tenant, agent_id=name, session_id=name)
            written = (
                keys_of.agent_key(tenant, name),
                keys_of.agent_list_key(tenant, name),
                keys_of.session_list_key(tenant, name, name),
                keys_of.session_key(ref),
                keys_of.attachment_key(ref, name),
                keys_of.idempotency_key(tenant, "0" * 64),
                keys_of.directory_key(tenant),
                *(keys_of.registered_key(tenant, kind, name) for kind in ("model", "toolgroup", "shield")),
            )
            for key in written:
                assert rights.allow(Call("dynamodb:PutItem", TABLE_ARN, ((KEYS, (key.pk,)),))), key


def test_the_authorizer_reads_api_keys_and_nothing_else() -> None:
    rights = Rights(template(), "Authorize")
    assert [grant.action for grant in rights.allowed] == ["dynamodb:GetItem"]
    assert rights.allow(Call("dynamodb:GetItem", TABLE_ARN, ((KEYS, (keys_of.api_key_key("hash").pk,)),)))
    assert not rights.allow(Call("dynamodb:GetItem", TABLE_ARN, ((KEYS, ("acme|agents",)),)))
    for auth in ("jwt", "AWS_IAM"):
        assert Rights(template(Auth=auth), "Authorize").allowed == []


def test_the_state_machine_changes_turns_and_nothing_else() -> None:
    rights = Rights(template(), MACHINE)
    turn = Call("dynamodb:UpdateItem", TABLE_ARN, ((KEYS, ("acme|session:a:s",)),))
    assert rights.allow(turn)
    assert not rights.allow(turn._replace(context=((KEYS, ("acme|agent:a",)),)))
    actions = {grant.action for grant in rights.allowed} - LOGS
    assert actions == {"dynamodb:UpdateItem", "lambda:InvokeFunction", "events:PutEvents"}
    assert template().outputs["StateMachineArn"]["Value"] == {"Ref": MACHINE}
    assert machine_arn().endswith(":turnstone-TurnSupervisor")
