"""Sign requests with AWS Signature Version 4 and the credentials of this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError

from turnstone.domain.errors import ModelFailed


class SigV4:
    """Signer for one AWS service in one region."""

    def __init__(self, session: Any, service: str, region: str) -> None:
        """Take a botocore session, whose credentials may be refreshed."""
        self._session = session
        self._service = service
        self.region = region

    def __call__(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Mapping[str, str]:
        """Return the headers of the signature. Raises ModelFailed without credentials."""
        try:
            credentials = self._session.get_credentials()
            if credentials is None:
                raise ModelFailed("the server has no AWS credentials for this model")
            request = AWSRequest(method=method, url=url, data=body or b"", headers=dict(headers))
            SigV4Auth(credentials.get_frozen_credentials(), self._service, self.region).add_auth(request)
        except BotoCoreError as error:
            raise ModelFailed(f"the AWS credentials for this model can't be loaded: {error}") from error
        return dict(request.headers.items())
