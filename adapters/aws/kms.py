"""Wrap the keys of stored secrets with a key of AWS KMS.

So that who reads the environment alone cannot use them.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.api.calls import own_region
from bot.errors import Unavailable, WrongInput

_CONTEXT = {"purpose": "trnbot stored secrets"}
"""Belongs to the wrapped key: KMS unwraps it for no other purpose, and CloudTrail names it."""
_BYTES = 32


class DataKeys:
    """Ask KMS for a new wrapped key, and for the key in a wrapped one.

    A region "" means the process's own.
    """

    def __init__(self, region: str = "", client: Any = None) -> None:
        self._region, self._client = region, client

    def fresh(self, name: str) -> str:
        """Return a new key, wrapped by the KMS key of that id, ARN or alias, in base64.

        Nobody has seen it bare.
        """
        answer = self._ask("generate_data_key_without_plaintext", KeyId=name, NumberOfBytes=_BYTES)
        return base64.b64encode(answer["CiphertextBlob"]).decode()

    def unwrap(self, wrapped: str) -> str:
        """Return the bare key in URL-safe base64.

        Raise `WrongInput` for a text that is no wrapped key.
        """
        try:
            blob = base64.b64decode(wrapped, validate=True)
        except (binascii.Error, ValueError):
            raise WrongInput(
                "A key that begins with kms: is not base64; 'trnbot secrets key --kms NAME' prints"
                " one."
            ) from None
        return base64.urlsafe_b64encode(
            self._ask("decrypt", CiphertextBlob=blob)["Plaintext"]
        ).decode()

    def _ask(self, operation: str, **given: Any) -> Any:
        try:
            # Made when it is asked: most installations wrap no key.
            client = self._client or boto3.Session().client(
                "kms", region_name=self._region or own_region() or None, config=_PATIENT
            )
            return getattr(client, operation)(EncryptionContext=_CONTEXT, **given)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "unknown error")
            raise Unavailable(
                f"AWS KMS refused {_action(operation)} with '{code}'; {_REMEDY}"
            ) from None
        except BotoCoreError as error:
            raise Unavailable(
                f"AWS KMS was not reached for {_action(operation)} ({type(error).__name__});"
                f" {_REMEDY}"
            ) from None


_PATIENT = Config(
    connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 4}
)
_REMEDY = "see 'Secrets at rest' in docs/operate.md for the region, the permission and the key."


def _action(operation: str) -> str:
    """Return the operation as IAM writes it."""
    return "kms:" + "".join(part.title() for part in operation.split("_"))
