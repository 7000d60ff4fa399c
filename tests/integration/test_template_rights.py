"""A function may do what its route does, and nothing else."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cloudformation import Template, listed, template, variables
from turnstone.store.keys import api_key_key

KEY_ARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:model-key-AbCdEf"
READ = {"dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query", "s3:GetObject", "s3:ListBucket"}
BLOBS = {"s3:DeleteObject", "s3:GetObject", "s3:PutObject"}
CREATE = {"dynamodb:BatchGetItem", "dynamodb:ConditionCheckItem", "dynamodb:PutItem", *BLOBS}
LOOK_AFTER = {*READ, "states:StartExecution"}
RUN = {*LOOK_AFTER, *BLOBS, "dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "states:SendTaskSuccess"}
REGISTER = {*READ, *BLOBS, "dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:UpdateItem"}
DELETE = {*READ, "dynamodb:DeleteItem", "dynamodb:PutItem", "sqs:SendMessage"}
ASK_GUARDRAILS = {"bedrock:ApplyGuardrail", "bedrock:InvokeGuardrailChecks"}
KEYS = {"secretsmanager:GetSecretValue"}
BEDROCK = {"bedrock:InvokeModel", "bedrock:InvokeModelWithResponseStream"}
MODELS_FILE = {"ssm:GetParameter"}
RUN_CODE = {
    f"bedrock-agentcore:{action}"
    for action in ("StartCodeInterpreterSession", "InvokeCodeInterpreter", "StopCodeInterpreterSession")
}
ASK_MODEL = KEYS | BEDROCK | MODELS_FILE
MODELS = {
    "ModelsParameter": "/turnstone/models",
    "ProviderSecretArns": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:a,arn:aws:secretsmanager:::secret:b-*",
    "BedrockModelArns": "arn:aws:bedrock:eu-west-1::foundation-model/m,arn:aws:bedrock:*:1:inference-profile/*",
}
MAY = {
    "CreateAgent": CREATE | READ | MODELS_FILE,
    "GetAgent": READ,
    "ListAgents": READ,
    "DeleteAgent": DELETE,
    "DeleteSession": DELETE,
    "CleanUp": DELETE | {"dynamodb:BatchWriteItem", "s3:DeleteObject"},
    "CreateSession": CREATE | READ,
    "ListSessions": READ,
    "GetSession": LOOK_AFTER,
    "CreateTurn": RUN | ASK_MODEL | ASK_GUARDRAILS | RUN_CODE,
    "ResumeTurn": RUN | ASK_MODEL | ASK_GUARDRAILS | RUN_CODE,
    "CancelTurn": REGISTER | {"states:SendTaskSuccess"},
    "GetTurn": LOOK_AFTER,
    "GetEvents": LOOK_AFTER,
    "GetStep": LOOK_AFTER,
    "Models": REGISTER | KEYS | MODELS_FILE,
    "Inference": READ | ASK_MODEL | ASK_GUARDRAILS | RUN_CODE,
    "Tools": REGISTER | ASK_MODEL | ASK_GUARDRAILS | RUN_CODE,
    "GetAttachment": READ,
    "Shields": REGISTER | ASK_MODEL | ASK_GUARDRAILS | RUN_CODE,
    "Usage": READ | MODELS_FILE,
    "Agents2024": CREATE | DELETE | MODELS_FILE,
    "Reads2024": LOOK_AFTER,
    "Turns2024": RUN | ASK_MODEL | ASK_GUARDRAILS | RUN_CODE,
    "Server": set[str](),
    "Unserved": set[str](),
    "RunTurn": RUN | ASK_MODEL | ASK_GUARDRAILS | RUN_CODE,
    "Sweeper": RUN | ASK_MODEL | ASK_GUARDRAILS | RUN_CODE | {"sqs:SendMessage"},
    "Authorize": {"dynamodb:GetItem"},
}
NAMES_NOTHING = {"bedrock:InvokeGuardrailChecks"}  # checks without a guardrail are no resource
OPEN_TURNS = {"Fn::Sub": "${Table.Arn}/index/open"}
# Source: the service authorization reference knows no resource for these; a machine that logs needs them all
FOR_ALL_RESOURCES = {
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


def statements(made: Template, function: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for policy in function.get("Policies", []):
        document = made.resources[policy["Ref"]]["Properties"]["PolicyDocument"] if "Ref" in policy else policy
        yield from document["Statement"]


@pytest.mark.parametrize(
    ("models", "asking"),
    [
        ({}, set[str]()),
        ({"ModelApiKeySecretArn": KEY_ARN}, KEYS),
        ({"ModelsParameter": "/m"}, MODELS_FILE),
        (MODELS, ASK_MODEL),
    ],
    ids=["no key", "key", "file", "file of providers"],
)
def test_functions_may_do_what_they_do_and_nothing_else(models: dict[str, str], asking: set[str]) -> None:
    made = template(**models)
    may = {
        name: {action for statement in statements(made, function) for action in listed(statement["Action"])}
        for name, function in made.functions.items()
    }
    assert {name: actions - (ASK_MODEL - asking) for name, actions in MAY.items()} == may


def test_the_authorizer_reads_api_keys_and_nothing_else() -> None:
    made = template()
    (statement,) = statements(made, made.functions["Authorize"])
    assert statement["Condition"] == {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["apikey:*"]}}
    assert api_key_key("hash").pk == "apikey:hash"
    for auth in ("jwt", "AWS_IAM"):
        other = template(Auth=auth)
        assert not list(statements(other, other.functions["Authorize"]))


INTERPRETERS = "arn:${AWS::Partition}:bedrock-agentcore:${AWS::Region}:"
OF_AWS_AND_OURS = ("aws:code-interpreter/*", "${AWS::AccountId}:code-interpreter-custom/*")


def test_rights_are_for_one_resource() -> None:
    made = template(ModelApiKeySecretArn=KEY_ARN, ModelsParameter="/m")
    machine = made.resources["TurnSupervisor"]["Properties"]
    own = {
        "dynamodb": {"Fn::GetAtt": ["Table", "Arn"]},
        "bedrock": {"Fn::Sub": "arn:${AWS::Partition}:bedrock:${AWS::Region}:${AWS::AccountId}:guardrail/*"},
        "bedrock-agentcore": [{"Fn::Sub": INTERPRETERS + each} for each in OF_AWS_AND_OURS],
        "s3": {"Fn::Sub": "${Bucket.Arn}/blobs/*"},
        "states": variables(made.functions["RunTurn"])["TURNSTONE_STATE_MACHINE_ARN"],
        "secretsmanager": KEY_ARN,
        "ssm": {"Fn::Sub": "arn:${AWS::Partition}:ssm:${AWS::Region}:${AWS::AccountId}:parameter/m"},
        "sqs": {"Fn::GetAtt": ["Jobs", "Arn"]},
        "lambda": {"Fn::GetAtt": ["RunTurn", "Arn"]},
        "events": {"Fn::Sub": "arn:${AWS::Partition}:events:${AWS::Region}:${AWS::AccountId}:event-bus/default"},
    }
    for holder in (*made.functions.values(), machine):
        for statement in statements(made, holder):
            actions = set(listed(statement["Action"]))
            assert not [action for action in actions if "*" in action]
            if statement["Resource"] == "*":
                assert actions in (FOR_ALL_RESOURCES, NAMES_NOTHING)
                continue
            (service,) = {action.split(":")[0] for action in actions}
            if actions == {"s3:ListBucket"}:
                assert statement["Resource"] == {"Fn::GetAtt": ["Bucket", "Arn"]}
                ((kind, condition),) = statement["Condition"].items()
                assert (kind in ("StringLike", "StringLikeIfExists"), condition) == (True, {"s3:prefix": "blobs/*"})
                continue
            if listed(statement["Resource"]) == [OPEN_TURNS]:
                assert (holder, actions) == (made.functions["Sweeper"], {"dynamodb:Query"})
                continue
            assert listed(own[service]) == listed(statement["Resource"])
    assert machine["Name"]["Fn::Sub"] == own["states"]["Fn::Sub"].split(":stateMachine:")[1]


def test_of_keys_and_models_those_that_are_named_may_be_used() -> None:
    made = template(**MODELS)
    asked = {
        action: listed(statement["Resource"])
        for statement in statements(made, made.functions["CreateTurn"])
        for action in listed(statement["Action"])
    }
    assert asked["bedrock:InvokeModel"] == MODELS["BedrockModelArns"].split(",")
    assert asked["secretsmanager:GetSecretValue"] == MODELS["ProviderSecretArns"].split(",")


def test_no_role_has_more_policies_than_a_role_takes() -> None:
    """Source: the quotas of IAM; two are left to what SAM adds, for logs and for traces."""
    made = template(ModelApiKeySecretArn=KEY_ARN, **MODELS)
    assert max(len(function["Policies"]) for function in made.functions.values() if "Policies" in function) <= 8
