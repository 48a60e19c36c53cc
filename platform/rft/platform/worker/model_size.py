"""How many parameters a base model has, as the heads of its weight files tell: this side knows no tensor library."""

import json
from math import prod
from pathlib import Path
from typing import BinaryIO, cast

_HEAD_BYTES = 8
_LONGEST_HEAD = 100_000_000
"""What the format allows."""


def model_parameters(base_model_path: str) -> int | None:
    """Parameters in the folder's `*.safetensors`; None where it has none on this machine, or one cannot be read."""
    files = sorted(Path(base_model_path).expanduser().glob("*.safetensors"))
    try:
        counts = [_parameters(file) for file in files]
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None
    return sum(counts) or None


def _parameters(file: Path) -> int:
    with file.open("rb") as weights:
        head = cast("dict[str, dict[str, list[int]]]", json.loads(_head(weights)))
    return sum(prod(tensor["shape"]) for name, tensor in head.items() if name != "__metadata__")


def _head(weights: BinaryIO) -> bytes:
    """Eight bytes of length, then JSON. Raises ValueError."""
    length = int.from_bytes(weights.read(_HEAD_BYTES), "little")
    if length > _LONGEST_HEAD:
        raise ValueError("no safetensors file")
    return weights.read(length)
