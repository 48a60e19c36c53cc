"""Shapes of public ids (contract section 1.7) and ids derived from content."""

import hashlib
from uuid import UUID

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def public_id(prefix: str, entropy: bytes, length: int = 24) -> str:
    """`prefix` followed by `length` alphanumerics drawn from `entropy` (at least `length` bytes).

    Raises ValueError when there is too little entropy.
    """
    if len(entropy) < length:
        raise ValueError(f"an id of {length} characters needs {length} bytes of entropy, got {len(entropy)}")
    return prefix + "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in entropy[:length])


def digest(*parts: str | int) -> bytes:
    """SHA-256 over the parts, unambiguous about where one ends and the next begins."""
    return hashlib.sha256("\x1f".join(str(part) for part in parts).encode()).digest()


def trace_id(drawn: UUID) -> str:
    """`trace_` + UUID. Drawn by chance for every conversation: customers keep state under it."""
    return f"trace_{drawn}"


def seed_63(*parts: str | int) -> int:
    """A seed in [0, 2**63) from the parts."""
    return int.from_bytes(digest(*parts)[:8], "big") >> 1
