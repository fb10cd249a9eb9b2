"""Signatures of Standard Webhooks (specification 1.0, symmetric ``v1``), which OpenAI's clients check.

    signature = base64(HMAC-SHA256(key, id "." timestamp "." body)),  secret = "whsec_" base64(key)

While a secret is being rotated each one signs: the header lists the signatures, and one that fits is enough.
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence

from core.spec.webhook import SECRET_PREFIX, WebhookEvent


def signed_headers(event: WebhookEvent, secrets: Sequence[str], at: int) -> dict[str, str]:
    """The headers of one try at ``at`` (unix seconds); the id is the same on every try."""
    content = f"{event.id}.{at}.".encode() + event.body
    return {
        "webhook-id": event.id,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(f"v1,{_signature(secret, content)}" for secret in secrets),
    }


def _signature(secret: str, content: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    return base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
