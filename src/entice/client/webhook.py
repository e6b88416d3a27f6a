"""The check of a request that a webhook received."""

from __future__ import annotations

import hmac
import re
import time

from entice.api_types import WebhookPayload
from entice.client.connection import decoded
from entice.errors import InputError


def read_webhook(
    body: bytes, signature: str, secret: str, tolerance: float = 300.0
) -> WebhookPayload:
    """Check a request that a webhook received, and return its events.

    `body` is the request's body, byte for byte, `signature` its header Entice-Signature. Raises
    `InputError` if the signature is wrong or more than `tolerance` seconds old: then respond with
    status 400, and use nothing of the body.
    """
    found = re.fullmatch("t=([0-9]{1,12}),v1=([0-9a-f]{64})", signature)
    signed = (found[1] if found else "").encode() + b"." + body
    expected = hmac.digest(secret.encode(), signed, "sha256").hex()
    if found is None or not hmac.compare_digest(expected, found[2]):
        raise InputError("Entice-Signature", "must be the signature of the body")
    if abs(time.time() - int(found[1])) > tolerance:
        raise InputError("Entice-Signature", f"must be at most {tolerance:g} s old")
    return decoded(body, WebhookPayload)
