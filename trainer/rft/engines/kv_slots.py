"""Key and value memory in slots, one per conversation, and the attention that reads it.

Conversations of different length share one forward pass: they are packed into one row of T tokens, and only attention
looks at them one slot at a time, in chunks of similar length. What is computed for a token does not depend on what else
is in the pass, to the last bit: no matrix product has a shape for which it would be summed in another order (`ROWS`,
`_steady_key_counts`; He et al., "Defeating Nondeterminism in LLM Inference", 2025).
Shapes: S slots, C tokens of capacity, H key/value heads, D head size.
"""

import math
import mmap
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import AttentionInterface, PretrainedConfig

ATTENTION = "rft_slots"
ROWS, _QUERIES = 8, 4
"""Tokens, and queries of one head, are computed in multiples of so many: with fewer than four rows for each thread MKL
sums a product in another order (with more, too, where `import_env.prepare_products` does not keep it from that).
Attention computes a head in one thread."""
_KEYS, _KEY_BLOCK = 64, 512
"""Keys are computed in multiples of `_KEYS`; torch's attention on a CPU takes a block of them after the other."""
_ROWS_PER_CHUNK = 16
_NORESERVE = 0x4000 if sys.platform == "linux" else 0
"""No promise of memory behind the address space (mmap(2)); Python 3.11 has no name for it."""
_FEW_TOKENS = 7


class KvSlots:
    """The memory. Pages are touched only as far as conversations grow, so capacity costs address space alone; what a
    conversation has touched can be evicted."""

    def __init__(self, config: PretrainedConfig, *, slots: int, capacity: int, dtype: torch.dtype) -> None:
        """Raises MemoryError where the system has not so much address space to give."""
        self.slots, self.capacity = slots, _up(capacity, _KEY_BLOCK)
        shape = (slots, self.capacity, *_heads_and_size(config))
        size = math.prod(shape) * dtype.itemsize
        self._pages = [_untouched_pages(size) for _ in range(2 * config.num_hidden_layers)]
        memory = [torch.frombuffer(pages, dtype=dtype).view(shape) for pages in self._pages]
        self.keys: list[Tensor] = memory[::2]
        self.values: list[Tensor] = memory[1::2]
        self._token_bytes = size // slots // self.capacity
        self._touched = [0] * slots
        self.touched_tokens = 0
        """Of all slots: tokens that memory was touched for."""
        self._scratch = [torch.empty(0, dtype=dtype), torch.empty(0, dtype=dtype)]
        self._key_counts = _steady_key_counts(*_heads_and_size(config), dtype)

    @classmethod
    def as_many_as_fit(
        cls, config: PretrainedConfig, *, slots: int, least: int, capacity: int, dtype: torch.dtype
    ) -> "KvSlots":
        """`slots`, or fewer where address space is limited (vm.overcommit_memory=2, ulimit -v). Raises MemoryError."""
        while True:
            try:
                return cls(config, slots=slots, capacity=capacity, dtype=dtype)
            except MemoryError:
                if slots <= least:
                    raise
                slots = max(least, slots // 2)

    @staticmethod
    def bytes_per_token(config: PretrainedConfig) -> int:
        """What one token of one conversation occupies, in single precision."""
        heads, size = _heads_and_size(config)
        return 2 * 4 * heads * size * int(config.num_hidden_layers)

    def reach(self, tokens: int) -> int:
        """How many keys are computed, the masked ones included, where the longest conversation has so many tokens."""
        blocks, rest = divmod(tokens, _KEY_BLOCK)
        return blocks * _KEY_BLOCK + next(count for count in self._key_counts if count >= rest)

    def touched(self, slot: int) -> int:
        """The same of one slot."""
        return self._touched[slot]

    def touch(self, slot: int, tokens: int) -> None:
        """The slot's first tokens are about to be written."""
        growth = self.grows_by(slot, tokens)
        self._touched[slot] += growth
        self.touched_tokens += growth

    def grows_by(self, slot: int, tokens: int) -> int:
        """Tokens that memory would be touched for beyond what was, if the slot's first `tokens` were written."""
        return max(0, tokens - self._touched[slot])

    def evict(self, slot: int) -> None:
        """Forget what the slot holds: its memory is the system's again, and zeros where it is touched anew."""
        first = slot * self.capacity * self._token_bytes
        start, end = (
            edge // mmap.PAGESIZE * mmap.PAGESIZE
            for edge in (first + mmap.PAGESIZE - 1, first + self._touched[slot] * self._token_bytes)
        )
        if start < end:
            for pages in self._pages:
                pages.madvise(mmap.MADV_DONTNEED, start, end - start)
        self.touched_tokens -= self._touched[slot]
        self._touched[slot] = 0

    def gather(self, layer: int, slots_N: Tensor, reach: int) -> tuple[Tensor, Tensor]:
        """Keys and values (N, reach, H, D) of some slots, in scratch memory that the next call overwrites.

        Writing into memory that is there already is two to three times faster than `index_select` on its own.
        """
        _, _, heads, size = self.keys[layer].shape
        wanted = len(slots_N) * reach * heads * size
        if self._scratch[0].numel() < wanted:
            self._scratch = [torch.empty(wanted, dtype=self.keys[layer].dtype) for _ in range(2)]
        gathered = [scratch[:wanted].view(len(slots_N), reach, heads, size) for scratch in self._scratch]
        torch.index_select(self.keys[layer][:, :reach], 0, slots_N, out=gathered[0])
        torch.index_select(self.values[layer][:, :reach], 0, slots_N, out=gathered[1])
        return gathered[0], gathered[1]

    def copy_prefix(self, source: int, target: int, tokens: int) -> None:
        """Make the first tokens of `target` what they are in `source`."""
        self.touch(target, tokens)
        for memory in (*self.keys, *self.values):
            memory[target, :tokens] = memory[source, :tokens]


def _untouched_pages(size: int) -> mmap.mmap:
    """Zeros, because attention multiplies what it must not see by 0, and 0 times a stray NaN is NaN.

    Straight from the system, which touches nothing that nobody writes to, and takes parts of it back.
    """
    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    except OSError as error:
        raise MemoryError(f"no address space for keys and values: {error}") from error


def _heads_and_size(config: PretrainedConfig) -> tuple[int, int]:
    heads = int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)
    return heads, int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


@dataclass(frozen=True, slots=True)
class Segment:
    """The tokens of one conversation in this pass: `length` new ones after `past` known ones."""

    slot: int
    past: int
    length: int

    @property
    def kind(self) -> int:
        """Segments of one kind share a chunk: a single token, a few, many."""
        return 0 if self.length == 1 else 1 if self.length <= _FEW_TOKENS else 2


@dataclass(frozen=True, slots=True)
class _Chunk:
    start: int
    """First packed token."""
    tokens: int
    slots_N: Tensor
    reach: int
    """Keys of each conversation, the masked ones included."""
    mask_N_1_Q_K: Tensor
    queries: int
    """Most new tokens of one conversation."""
    index_N_Q: Tensor | None
    """Packed position of each query; None where every conversation has one."""
    is_query_N_Q: Tensor | None


class SlotBatch:
    """One forward pass: where each packed token is written and what it may see. Segments must come sorted."""

    def __init__(self, memory: KvSlots, segments: Sequence[Segment], *, rows: int = ROWS) -> None:
        """`rows`: the pass is filled up to a multiple of so many tokens; what they compute is written nowhere."""
        self.memory = memory
        positions: list[int] = []
        written: list[int] = []
        for segment in segments:
            memory.touch(segment.slot, segment.past + segment.length)
            positions.extend(range(segment.past, segment.past + segment.length))
            written.extend(range(base := segment.slot * memory.capacity + segment.past, base + segment.length))
        self.tokens, self.padding = len(positions), -len(positions) % rows
        self.positions_T = torch.tensor(positions + [0] * self.padding)
        self.write_T = torch.tensor(written)
        self.chunks = list(_chunks(memory, segments))


def _chunks(memory: KvSlots, segments: Sequence[Segment]) -> "list[_Chunk]":
    chunks: list[_Chunk] = []
    start, first = 0, 0
    while first < len(segments):
        kind, last = segments[first].kind, first
        while last < len(segments) and last - first < _ROWS_PER_CHUNK and segments[last].kind == kind:
            last += 1
        chunks.append(_chunk(memory, segments[first:last], start))
        start, first = start + chunks[-1].tokens, last
    return chunks


def _chunk(memory: KvSlots, segments: Sequence[Segment], start: int) -> _Chunk:
    past_N = torch.tensor([segment.past for segment in segments])
    length_N = torch.tensor([segment.length for segment in segments])
    queries, reach = int(length_N.max()), memory.reach(int((past_N + length_N).max()))
    query_Q = torch.arange(_up(queries, _QUERIES) if queries > 1 else 1)
    sees_N_Q = past_N[:, None] + query_Q[None, :]
    mask = torch.arange(reach)[None, None, None, :] <= sees_N_Q[:, None, :, None]
    index_N_Q = is_query_N_Q = None
    if queries > 1:
        is_query_N_Q = query_Q[None, :] < length_N[:, None]
        begin_N = start + length_N.cumsum(0) - length_N
        index_N_Q = torch.where(is_query_N_Q, begin_N[:, None] + query_Q[None, :], start)
    return _Chunk(
        start=start,
        tokens=int(length_N.sum()),
        slots_N=torch.tensor([segment.slot for segment in segments]),
        reach=reach,
        mask_N_1_Q_K=mask,
        queries=queries,
        index_N_Q=index_N_Q,
        is_query_N_Q=is_query_N_Q,
    )


def slot_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    slot_batch: SlotBatch,
    scaling: float | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """Attention of packed tokens (1, heads, T, D) over their conversations' slots; (1, T, heads, D) comes out."""
    layer = int(module.layer_idx)  # pyright: ignore[reportArgumentType]
    keys, values = slot_batch.memory.keys[layer], slot_batch.memory.values[layer]
    keys.flatten(0, 1).index_copy_(0, slot_batch.write_T, key[0, :, : slot_batch.tokens].transpose(0, 1))
    values.flatten(0, 1).index_copy_(0, slot_batch.write_T, value[0, :, : slot_batch.tokens].transpose(0, 1))
    query_T_H_D = query[0].transpose(0, 1)
    out_T_H_D = torch.empty_like(query_T_H_D, memory_format=torch.contiguous_format)
    out_T_H_D[slot_batch.tokens :] = 0.0
    for chunk in slot_batch.chunks:
        gathered = slot_batch.memory.gather(layer, chunk.slots_N, chunk.reach)
        keys_N_H_K_D, values_N_H_K_D = gathered[0].transpose(1, 2), gathered[1].transpose(1, 2)
        end = chunk.start + chunk.tokens
        if chunk.index_N_Q is None or chunk.is_query_N_Q is None:
            # Query heads that share a key head stand in a row as if they were queries: they all see the same.
            n, heads, size = chunk.tokens, keys_N_H_K_D.size(1), keys_N_H_K_D.size(3)
            query_N = query_T_H_D[chunk.start : end].reshape(n, heads, -1, size)
            groups = query_N.size(2)
            query_N = pad(query_N, (0, 0, 0, -groups % _QUERIES))
            attended = _attend(query_N, keys_N_H_K_D, values_N_H_K_D, chunk.mask_N_1_Q_K, scaling)
            out_T_H_D[chunk.start : end] = attended[:, :, :groups].reshape(n, -1, size)
        else:
            query_N = query_T_H_D[chunk.index_N_Q].transpose(1, 2)
            groups = query_N.size(1) // keys_N_H_K_D.size(1)
            if groups > 1:
                keys_N_H_K_D = keys_N_H_K_D.repeat_interleave(groups, dim=1)
                values_N_H_K_D = values_N_H_K_D.repeat_interleave(groups, dim=1)
            attended = _attend(query_N, keys_N_H_K_D, values_N_H_K_D, chunk.mask_N_1_Q_K, scaling)
            out_T_H_D[chunk.start : end] = attended.transpose(1, 2)[chunk.is_query_N_Q]
    return out_T_H_D[None], None


def _steady_key_counts(heads: int, size: int, dtype: torch.dtype) -> tuple[int, ...]:
    """0 and the numbers of keys, up to a block, with which attention gives to the bit what a whole block gives.

    A product over many keys is summed in parts, and their number decides where those end. Measured, because the
    processor decides it as well.
    """
    draw = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(1, heads, count, size, generator=draw).to(dtype) for count in (4 * ROWS, _KEY_BLOCK, _KEY_BLOCK)
    )

    def attended(keys: int, visible: int) -> Tensor:
        mask = (torch.arange(keys) < visible)[None, None, None]
        return _attend(query, key[:, :, :keys], value[:, :, :keys], mask, None)

    counts = range(_KEYS, _KEY_BLOCK, _KEYS)
    return 0, *(n for n in counts if torch.equal(attended(n, n), attended(_KEY_BLOCK, n))), _KEY_BLOCK


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scaling: float | None) -> Tensor:
    return scaled_dot_product_attention(query, keys, values, attn_mask=mask, scale=scaling)


AttentionInterface.register(ATTENTION, slot_attention)  # pyright: ignore[reportArgumentType]
