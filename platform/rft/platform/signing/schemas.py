"""Signing secrets on the wire. A secret's value is told once, when it is made."""

from typing import Literal

from rft.platform.api.pagination import Listed


class SigningSecretObject(Listed):
    """One secret, without its value."""

    object: Literal["signing_secret"] = "signing_secret"
    created_at: int
    retired_at: int | None
    status: Literal["active", "retired"]


class NewSigningSecret(SigningSecretObject):
    """One secret with its value, shown this once."""

    secret: str
    """`whsec_<base64>`, as the Standard Webhooks libraries take it."""
