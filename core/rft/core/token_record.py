"""A compact record of tokens: ids and mask exactly, log-probabilities as float16, for reading and not for training.

Packed: number of tokens and of runs, lengths of the runs of the mask, ids, log-probabilities of the sampled tokens;
numbers by their bytes, all lowest ones first, because bytes of one kind compress better than numbers; then zlib.
"""

import hashlib
import struct
import zlib
from collections.abc import Iterable, Sequence
from itertools import compress, groupby

from rft.core.turns import TokenSpan

LARGEST_FLOAT16 = 65504.0
"""What is beyond it, is cut to it. Otherwise float16 is wrong by 2^-11 of a value, or by 2^-25, at most."""
_HEAD = struct.Struct("<II")
_ID_BYTES = 4
_NAME_CHARS = 24


def pack_tokens(span: TokenSpan) -> bytes:
    """About 3 bytes for a sampled token, 2 for another one. Ids need 0 <= id < 2^32: else raises struct.error."""
    runs = _runs(span.mask_T)
    numbers = struct.pack(f"<{len(runs)}I", *runs) + _by_place(
        struct.pack(f"<{len(span.token_ids_T)}I", *span.token_ids_T), _ID_BYTES
    )
    logprobs = _by_place(pack_float16(compress(span.logprobs_T, span.mask_T)), 2)
    return zlib.compress(_HEAD.pack(len(span.token_ids_T), len(runs)) + numbers + logprobs)


def unpack_tokens(packed: bytes) -> TokenSpan:
    """What was packed, log-probabilities as float16 has them. Raises zlib.error and struct.error for other bytes."""
    content = zlib.decompress(packed)
    tokens, runs = _HEAD.unpack_from(content)
    ids_at = _HEAD.size + _ID_BYTES * runs
    logprobs_at = ids_at + _ID_BYTES * tokens
    mask_T = [
        number % 2 == 1
        for number, length in enumerate(struct.unpack_from(f"<{runs}I", content, _HEAD.size))
        for _ in range(length)
    ]
    logprobs = iter(unpack_float16(_by_value(content[logprobs_at:], 2)))
    return TokenSpan(
        token_ids_T=struct.unpack(f"<{tokens}I", _by_value(content[ids_at:logprobs_at], _ID_BYTES)),
        mask_T=tuple(mask_T),
        logprobs_T=tuple(next(logprobs) if is_sampled else 0.0 for is_sampled in mask_T),
    )


def prompt_name(packed: bytes) -> str:
    """What a packed prompt is called within its job; long enough that no two of a job's are called alike."""
    return hashlib.sha256(packed).hexdigest()[:_NAME_CHARS]


def pack_float16(values: Iterable[float]) -> bytes:
    """Two bytes each, little-endian."""
    cut = [min(max(value, -LARGEST_FLOAT16), LARGEST_FLOAT16) if value == value else value for value in values]
    return struct.pack(f"<{len(cut)}e", *cut)


def unpack_float16(packed: bytes) -> tuple[float, ...]:
    """As `pack_float16` has packed them. Raises struct.error for an odd number of bytes."""
    return struct.unpack(f"<{len(packed) // 2}e", packed)


def _runs(mask_T: Sequence[bool]) -> list[int]:
    """Lengths of what is not sampled and what is, in turns; the first may be 0."""
    lengths = [sum(1 for _ in run) for _, run in groupby(mask_T)]
    return [0, *lengths] if mask_T and mask_T[0] else lengths


def _by_place(values: bytes, width: int) -> bytes:
    """First the first byte of all values, then the second, and so on."""
    return b"".join(values[place::width] for place in range(width))


def _by_value(places: bytes, width: int) -> bytes:
    """The inverse of `_by_place`."""
    values = bytearray(len(places))
    count = len(places) // width
    for place in range(width):
        values[place::width] = places[place * count : (place + 1) * count]
    return bytes(values)
