"""How one GPU is divided between a vLLM server of a run's own and the update of the same run: both at once, or in
turns. Pure."""

from dataclasses import dataclass

from rft.core.errors import RftError
from rft.core.model_check import ModelFigures

_HALF_BYTES = 2
_SINGLE_BYTES = 4
"""As activations are told."""
_CHECKPOINTED_SHARE = 1 / 8
"""Of what an update keeps of a token otherwise: a vector for each layer, and all of one layer and its way back."""
_UPDATE_BESIDE_BYTES = 3 * 2**29
"""The driver's own, and what libraries keep for their work."""
_SERVER_BESIDE_BYTES = 2 * 2**30
"""The driver's own, graphs that are kept, and the logits of a batch."""
_ASLEEP_BYTES = 2 * 2**30
"""What a server that sleeps keeps: the driver's own, and its graphs."""
_LARGEST_SHARE = 0.9


class GpuTooSmall(RftError):
    """Server and update do not fit together."""


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """In bytes."""

    free: int
    total: int


@dataclass(frozen=True, slots=True)
class LeastNeeds:
    """What each of the two takes at least, in bytes."""

    update: int
    resident: int
    """Of that, what the trainer has between updates, too."""
    server: int

    @classmethod
    def of(
        cls,
        figures: ModelFigures,
        *,
        cache_bytes_per_token: int,
        update_bytes: int,
        context_tokens: int,
        slots_bytes: int,
    ) -> "LeastNeeds":
        """The base model in half precision for the server; the adapter in single precision, as it is trained.

        `cache_bytes_per_token`: keys and values in half precision, of at least one conversation of `context_tokens`;
        an update takes one such rollout at least, with checkpointing. `update_bytes`: of one number of its base model.
        `slots_bytes`: the server's room for adapters.
        """
        kept = (figures.activation_bytes_per_token or 0) * update_bytes // _SINGLE_BYTES
        longest = int(_CHECKPOINTED_SHARE * kept * context_tokens)
        resident = update_bytes * figures.parameters + figures.adapter_bytes + _UPDATE_BESIDE_BYTES
        weights, cache = _HALF_BYTES * figures.parameters, cache_bytes_per_token * context_tokens
        return cls(
            update=resident + longest,
            resident=resident,
            server=weights + slots_bytes + cache + _SERVER_BESIDE_BYTES,
        )


def server_share(needs: LeastNeeds, gpu: GpuMemory) -> float:
    """The share of the whole GPU that the server may take: what it needs, and half of what is left over.

    Raises GpuTooSmall with both figures.
    """
    left = gpu.free - needs.update - needs.server
    if left < 0:
        raise _too_small(needs, gpu, "they do not fit together")
    return min(_LARGEST_SHARE, (needs.server + left / 2) / gpu.total)


def server_share_in_turns(needs: LeastNeeds, gpu: GpuMemory) -> float:
    """The share that a server may take which sleeps during updates: all that the trainer does not keep.

    Raises GpuTooSmall with both figures.
    """
    if needs.server + needs.resident > gpu.free or needs.update + _ASLEEP_BYTES > gpu.free:
        raise _too_small(needs, gpu, "they do not fit, not even in turns")
    return min(_LARGEST_SHARE, (gpu.free - needs.resident) / gpu.total)


def _too_small(needs: LeastNeeds, gpu: GpuMemory, how: str) -> GpuTooSmall:
    return GpuTooSmall(
        f"The GPU has {_gib(gpu.free)} free of {_gib(gpu.total)}. A vLLM server for this model takes at least"
        f" {_gib(needs.server)} of it and the update at least {_gib(needs.update)}, of which it keeps"
        f" {_gib(needs.resident)} between updates: {how}. A smaller max_context_tokens, an adapter of a smaller"
        " rank or a larger GPU helps, or vLLM servers elsewhere (RFT_VLLM_SERVERS)."
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
