"""How many tokens, padding included, one micro-batch may have: by what a token leaves in memory until the backward
pass, and by what memory there is."""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from rft.core.errors import RunFailed
from rft.trainer.samples import TrainingRow

_FREE_SHARE = 0.5
"""Of the free memory: what a backward pass needs beside the kept activations is of their size at worst."""
_CPU_BYTES = 512 * 2**20
"""Larger micro-batches are no faster on a CPU. Memory beyond that changes no layout, and so no bit of a result."""
_SMALLEST_TOKENS = 64
_LARGEST_TOKENS = 2**18
_MEMORY_INFO = Path("/proc/meminfo")
_LIMIT, _USED = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
_BROKEN = "CUDA error"
_TOLD_IN_WORDS = ("can't allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""Of the allocator on the CPU; of CUDA, Triton and cuBLAS, which allocate beside torch's own."""


def tokens_within(free_bytes: int, bytes_per_token: int, device: torch.device) -> int:
    """The budget for so much free memory: a power of two, so that a little more or less changes nothing."""
    usable = free_bytes * _FREE_SHARE if device.type == "cuda" else min(free_bytes * _FREE_SHARE, _CPU_BYTES)
    tokens = max(_SMALLEST_TOKENS, min(_LARGEST_TOKENS, int(usable // max(bytes_per_token, 1))))
    return 1 << (tokens.bit_length() - 1)


def halved(tokens: int, failed: Sequence[TrainingRow], *, is_least: bool) -> int:
    """The budget after memory ran out over the rows of one micro-batch: so that they are computed in another way.

    Raises RunFailed where no smaller one changes anything. `is_least`: no layer kept what it computed for the way back.
    """
    longest = max((row.tokens for row in failed), default=0)
    if not failed or is_least:
        raise RunFailed(
            "out_of_memory",
            f"The machine ran out of memory in an update, over a single rollout of {longest} tokens and with gradient"
            " checkpointing. A smaller budgets.max_tokens helps, or a smaller model, or a machine with more memory.",
        )
    half = tokens // 2
    while half >= len(failed) * longest:  # They would be cut as they were.
        half //= 2
    return max(1, half)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, on whichever device."""
    is_told_by_type = isinstance(error, (torch.OutOfMemoryError, MemoryError))
    return is_told_by_type or (isinstance(error, RuntimeError) and any(one in str(error) for one in _TOLD_IN_WORDS))


def is_gpu_lost(error: BaseException) -> bool:
    """Whether an exception says that CUDA broke, by itself or by what was computed: all that follows breaks, too."""
    is_told = isinstance(error, torch.AcceleratorError) or (isinstance(error, RuntimeError) and _BROKEN in str(error))
    return is_told and not is_out_of_memory(error)


def free_bytes(device: torch.device) -> int:
    """Memory that could be had now, within the limits of a container, or of this process on its GPU."""
    if device.type == "cuda":
        (free, total), taken = torch.cuda.mem_get_info(device), torch.cuda.memory_allocated(device)
        allowed = int(torch.cuda.get_per_process_memory_fraction() * total)
        return max(0, min(free + torch.cuda.memory_reserved(device), allowed) - taken)
    if not _MEMORY_INFO.exists():
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    fields = dict(line.split(":", 1) for line in _MEMORY_INFO.read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    limit = _LIMIT.read_text().strip() if _LIMIT.exists() else "max"
    return available if limit == "max" else max(0, min(available, int(limit) - int(_USED.read_text())))


@contextmanager
def kept_bytes(model: nn.Module) -> Generator[Callable[[], int]]:
    """Counts what passes inside keep for the backward pass, each piece of memory once, weights apart."""
    weights = {_memory_of(parameter) for parameter in model.parameters() if not isinstance(parameter, DTensor)}

    def note_weights(module: nn.Module, _: object) -> None:
        """Just before they are used: weights in parts are elsewhere until then."""
        weights.update(map(_memory_of, module.parameters(recurse=False)))

    kept: dict[int, int] = {}
    alive: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        memory = _memory_of(tensor)
        if memory not in weights:
            kept[memory] = tensor.untyped_storage().nbytes()
            alive.append(tensor)  # Or its address would be given to the next one.
        return tensor

    hooks = [module.register_forward_pre_hook(note_weights) for module in model.modules()]
    try:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            yield lambda: sum(kept.values())
    finally:
        for hook in hooks:
            hook.remove()
        alive.clear()


def _memory_of(tensor: Tensor) -> int:
    """Tells pieces of memory apart, also those of tensors without values, which have no address."""
    return tensor.untyped_storage()._cdata  # pyright: ignore[reportPrivateUsage]
