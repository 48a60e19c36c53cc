"""Signatures in the Standard Webhooks format, so that an endpoint can tell our calls from anybody else's.

Headers `webhook-id`, `webhook-timestamp`, `webhook-signature: v1,<base64 HMAC-SHA256 of id.timestamp.body>`. With two
secrets there are two signatures in a row: the receiver may hold either, which is how a secret is rotated.
"""

import base64
import binascii
import hmac
from collections.abc import Sequence

SECRET_PREFIX = "whsec_"
SECRET_BYTES = 32
_SHORTEST_KEY_BYTES = 24
_LONGEST_KEY_BYTES = 64


def new_secret(entropy: bytes) -> str:
    """A secret to show to the customer once, from 24 to 64 random bytes. Raises ValueError outside of that."""
    if not _SHORTEST_KEY_BYTES <= len(entropy) <= _LONGEST_KEY_BYTES:
        raise ValueError(f"a signing secret is made of {_SHORTEST_KEY_BYTES} to {_LONGEST_KEY_BYTES} bytes")
    return SECRET_PREFIX + base64.b64encode(entropy).decode()


class Signer:
    """Signs calls with one secret, or with the new and the old one while they are being rotated."""

    def __init__(self, secrets: Sequence[str]) -> None:
        """Raises ValueError for a malformed secret, without repeating it."""
        if not secrets:
            raise ValueError("signing needs at least one secret")
        self._keys = [_key(secret) for secret in secrets]

    def __repr__(self) -> str:
        return f"Signer({len(self._keys)} secrets)"

    def headers(self, message_id: str, body: bytes, *, now_s: float) -> list[tuple[str, str]]:
        """The three headers of one attempt. `message_id` stays the same on every attempt; `now_s` since 1970."""
        timestamp = str(int(now_s))
        signed = b"%b.%b.%b" % (message_id.encode(), timestamp.encode(), body)
        signatures = [b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256")) for key in self._keys]
        return [
            ("webhook-id", message_id),
            ("webhook-timestamp", timestamp),
            ("webhook-signature", b" ".join(signatures).decode()),
        ]


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"a signing secret looks like {SECRET_PREFIX}<base64>") from None
    if not _SHORTEST_KEY_BYTES <= len(key) <= _LONGEST_KEY_BYTES:
        raise ValueError(f"a signing secret holds {_SHORTEST_KEY_BYTES} to {_LONGEST_KEY_BYTES} bytes")
    return key
