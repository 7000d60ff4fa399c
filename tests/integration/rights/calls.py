"""Calls of AWS as IAM judges them: an action on a resource, and the values that a policy's conditions read. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.support.aws.cloudformation import ACCOUNT, REGION

KEYS = "dynamodb:LeadingKeys"
PREFIX = "s3:prefix"
TABLE = "turnstone-Table"
BUCKET = "turnstone-bucket"
TABLE_ARN = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{TABLE}"
BUCKET_ARN = f"arn:aws:s3:::{BUCKET}"
QUEUES_ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}"
JOBS, INGESTIONS = "turnstone-Jobs", "turnstone-Ingestions"
OF_TRANSACTION = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
}
OF_S3 = {"PutObject": "PutObject", "GetObject": "GetObject", "DeleteObject": "DeleteObject"}
# Source: the service authorization reference of Bedrock: Converse needs the rights of InvokeModel
OF_MODELS = {"Converse": "InvokeModel", "ConverseStream": "InvokeModelWithResponseStream", "InvokeModel": "InvokeModel"}
# the kind of a partition key; a caller's name and a hash become a star
KINDS = (
    (re.compile(r"^apikey:.*"), "apikey:*"),
    (re.compile(r"^job:\d$|^turn:\d$"), "a shard of the open index"),
    (re.compile(r"^job:.*"), "job:*"),
    (re.compile(r"^[^|]*\|(\w+):.*"), r"*|\1:*"),
    (re.compile(r"^[^|]*\|(\w+)$"), r"*|\1"),
    (re.compile(r"^(sweep)$"), r"\1"),
)


class Call(NamedTuple):
    """A call that a policy must allow. `context` has the values of condition keys, each a tuple."""

    action: str
    resource: str
    context: tuple[tuple[str, tuple[str, ...]], ...] = ()


def calls_of(service: str, operation: str, params: Mapping[str, Any]) -> Iterator[Call]:
    """Yield the IAM calls of a call of botocore. Raises NotImplementedError for an unsupported call."""
    match service:
        case "dynamodb":
            yield from _of_dynamodb(operation, params)
        case "s3":
            yield from _of_s3(operation, params)
        case "sqs" if operation in ("SendMessage", "SendMessageBatch"):
            yield Call("sqs:SendMessage", f"{QUEUES_ARN}:{params['QueueUrl'].rpartition('/')[2]}")
        case "stepfunctions" if operation == "StartExecution":
            yield Call("states:StartExecution", params["stateMachineArn"])
        case "stepfunctions" if operation == "SendTaskSuccess":
            # AWS judges the machine whose token it is
            yield Call("states:SendTaskSuccess", machine_arn())
        case "ssm" if operation == "GetParameter":
            yield Call("ssm:GetParameter", f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter{params['Name']}")
        case "secretsmanager" if operation == "GetSecretValue":
            yield Call("secretsmanager:GetSecretValue", params["SecretId"])
        case "bedrock-runtime":
            yield from _of_bedrock(operation, params)
        case "bedrock-agentcore":
            yield Call(f"bedrock-agentcore:{operation}", interpreter_arn(params["codeInterpreterIdentifier"]))
        case _:
            raise NotImplementedError(f"no right is defined for {operation} of {service}")


def signed_call(url: str, body: Mapping[str, Any]) -> Call:
    """Return the IAM call of a request that is signed by itself, to Bedrock's OpenAI endpoint."""
    assert url.endswith("/chat/completions"), f"no right is defined for {url}"
    action = "InvokeModelWithResponseStream" if body.get("stream") else "InvokeModel"
    return Call(f"bedrock:{action}", model_arn(body["model"]))


def machine_arn() -> str:
    return f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:turnstone-TurnSupervisor"


def model_arn(model: str) -> str:
    return f"arn:aws:bedrock:{REGION}::foundation-model/{model}"


def guardrail_arn(guardrail: str) -> str:
    return f"arn:aws:bedrock:{REGION}:{ACCOUNT}:guardrail/{guardrail}"


def kind_of(key: str) -> str:
    """Return the kind of a partition key, such as `*|session:*`."""
    for pattern, kind in KINDS:
        if pattern.search(key):
            return pattern.sub(kind, key, count=1)
    raise NotImplementedError(f"{key!r} is a key of no kind that is known here")


def _of_dynamodb(operation: str, params: Mapping[str, Any]) -> Iterator[Call]:
    def call(action: str, resource: str, *keys: str) -> Call:
        return Call(f"dynamodb:{action}", resource, ((KEYS, keys),))

    match operation:
        case "TransactWriteItems":
            for item in params["TransactItems"]:
                ((verb, request),) = item.items()
                key = request.get("Key") or request["Item"]
                yield call(OF_TRANSACTION[verb], _table_arn(request["TableName"]), key["pk"]["S"])
        case "BatchGetItem":
            for table, request in params["RequestItems"].items():
                yield call(operation, _table_arn(table), *(key["pk"]["S"] for key in request["Keys"]))
        case "BatchWriteItem":
            for table, requests in params["RequestItems"].items():
                keys = [request["DeleteRequest"]["Key"]["pk"]["S"] for request in requests]
                yield call(operation, _table_arn(table), *keys)
        case "Query":
            table, values = _table_arn(params["TableName"]), params["ExpressionAttributeValues"]
            resource = f"{table}/index/{params['IndexName']}" if "IndexName" in params else table
            yield call(operation, resource, values[":shard" if "IndexName" in params else ":pk"]["S"])
        case "GetItem" | "PutItem" | "UpdateItem" | "DeleteItem":
            key = params.get("Key") or params["Item"]
            yield call(operation, _table_arn(params["TableName"]), key["pk"]["S"])
        case _:
            raise NotImplementedError(f"no right is defined for {operation} of DynamoDB")


def _of_s3(operation: str, params: Mapping[str, Any]) -> Iterator[Call]:
    bucket = f"arn:aws:s3:::{params['Bucket']}"
    if operation == "ListObjectsV2":
        yield Call("s3:ListBucket", bucket, ((PREFIX, (params["Prefix"],)),))
    elif operation == "DeleteObjects":
        for entry in params["Delete"]["Objects"]:
            yield Call("s3:DeleteObject", f"{bucket}/{entry['Key']}")
    else:
        yield Call(f"s3:{OF_S3[operation]}", f"{bucket}/{params['Key']}")
        # Source: the reference of GetObject: a missing object is a 404 only where the bucket may be listed, else a 403
        if operation == "GetObject":
            yield Call("s3:ListBucket", bucket)


def _of_bedrock(operation: str, params: Mapping[str, Any]) -> Iterator[Call]:
    if operation == "ApplyGuardrail":
        yield Call("bedrock:ApplyGuardrail", guardrail_arn(params["guardrailIdentifier"]))
    elif operation == "InvokeGuardrailChecks":
        yield Call("bedrock:InvokeGuardrailChecks", "*")
    else:
        yield Call(f"bedrock:{OF_MODELS[operation]}", model_arn(params["modelId"]))
        # Source: the user guide of Bedrock: a guardrail within a request needs the right to apply it
        if "guardrailConfig" in params:
            yield Call("bedrock:ApplyGuardrail", guardrail_arn(params["guardrailConfig"]["guardrailIdentifier"]))


def _table_arn(name: str) -> str:
    return f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}"


def interpreter_arn(identifier: str) -> str:
    # interpreters of AWS belong to no account
    if identifier.startswith("aws."):
        return f"arn:aws:bedrock-agentcore:{REGION}:aws:code-interpreter/{identifier}"
    return f"arn:aws:bedrock-agentcore:{REGION}:{ACCOUNT}:code-interpreter-custom/{identifier}"
