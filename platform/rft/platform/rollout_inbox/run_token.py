"""What the trainer of one launch, and the workers it gives rollouts to, show the inbox."""

import hashlib
import re
import secrets
from dataclasses import dataclass, field

from fastapi.security.utils import get_authorization_scheme_param

_PREFIX = "rftrun"
_RANDOM_BYTES = 32
_NUMBER = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class RunToken:
    """`rftrun.<lease>.<launch>.<random>`: good for as long as the lease stands and no other launch follows."""

    lease_token: int
    launch: int
    secret: str = field(repr=False)

    def __str__(self) -> str:
        return f"{_PREFIX}.{self.lease_token}.{self.launch}.{self.secret}"

    @property
    def sha256(self) -> bytes:
        """What is stored of the secret."""
        return hashlib.sha256(self.secret.encode()).digest()

    @classmethod
    def of(cls, authorization: str | None) -> "RunToken | None":
        """Of the header; None where it shows no such token."""
        scheme, shown = get_authorization_scheme_param(authorization)
        return cls.read(shown) if scheme.lower() == "bearer" else None

    @classmethod
    def read(cls, shown: str) -> "RunToken | None":
        """None for what is no such token."""
        parts = shown.split(".")
        if len(parts) != 4 or parts[0] != _PREFIX or not all(_NUMBER.fullmatch(part) for part in parts[1:3]):
            return None
        return cls(int(parts[1]), int(parts[2]), parts[3])


def new_secret() -> str:
    """For one launch."""
    return secrets.token_urlsafe(_RANDOM_BYTES)
