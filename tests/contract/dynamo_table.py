"""The table as the template makes it, for tests."""

from typing import Any

TABLE = {
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "open")],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "open",
            "KeySchema": [{"AttributeName": "open", "KeyType": "HASH"}, {"AttributeName": "pk", "KeyType": "RANGE"}],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }
    ],
}


def create_table(client: Any, name: str) -> None:
    client.create_table(TableName=name, **TABLE)
