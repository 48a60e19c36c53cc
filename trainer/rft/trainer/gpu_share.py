"""Before a run starts a vLLM server on the GPU that it trains on: how much of it the server may take, and whether it
sleeps during updates."""

from pathlib import Path

import torch
from transformers import AutoConfig

from rft.core.errors import RunPaused
from rft.core.gpu_share import GpuMemory, GpuTooSmall, LeastNeeds, server_share, server_share_in_turns
from rft.core.spec import Engine, RunSpec
from rft.engines.kv_slots import KvSlots
from rft.trainer.model_figures import figures_of, slot_parameters
from rft.vllm_server.command import adapters_at_once, held_rank
from rft.vllm_server.environment import is_for_cpu

_BESIDE_TORCH_BYTES = 3 * 2**29
"""Of a GPU, beside what torch gives out: what libraries take once they compute, and the driver for the server, which
has to find its share free when it is started anew, too."""


def with_gpu_share(spec: RunSpec, gpu: GpuMemory | None, base_dtype: torch.dtype) -> RunSpec:
    """The specification with its server's share, where it has none. Raises RunPaused where the two do not fit.

    They take turns where `RFT_DEVICES` says so, and by themselves where they only fit so and no rollout goes on beside
    an update. `gpu`: what the run trains on; None: a CPU, and the whole GPU is the server's. `base_dtype`: of the
    update's base.
    """
    vllm = spec.vllm
    if not _has_own_server(spec):
        return spec
    are_told = spec.devices is not None and spec.devices.take_turns
    if are_told:
        spec = _with(spec, takes_turns=True)
    if vllm.gpu_memory_share is not None or gpu is None or is_for_cpu(Path(vllm.python)):
        return spec
    needs, may_sleep = least_needs(spec, base_dtype), spec.hyperparameters.max_staleness == 0
    try:
        if not are_told:
            try:
                return _with(spec, gpu_memory_share=server_share(needs, gpu))
            except GpuTooSmall:
                if not may_sleep:
                    raise
        return _with(spec, gpu_memory_share=server_share_in_turns(needs, gpu), takes_turns=True)
    except GpuTooSmall as problem:
        raise RunPaused("gpu_too_small", str(problem)) from problem


def shares_gpu(spec: RunSpec, gpu: GpuMemory | None) -> bool:
    """Whether a vLLM server of the run's own is on the `gpu` that the run trains on, if any."""
    if gpu is None or not _has_own_server(spec) or is_for_cpu(Path(spec.vllm.python)):
        return False
    return spec.devices is None or not spec.devices.vllm or spec.devices.take_turns


def rest_of_gpu(spec: RunSpec, gpu: GpuMemory | None) -> float | None:
    """The share of the whole GPU that updates may take beside a server of the run's own, which is not up yet.

    None: all that is there, as nothing else computes meanwhile, or as the server was given more than there is.
    """
    share = spec.vllm.gpu_memory_share
    if gpu is None or share is None or spec.vllm.takes_turns or not shares_gpu(spec, gpu):
        return None
    rest = gpu.free - share * gpu.total - _BESIDE_TORCH_BYTES
    return rest / gpu.total if rest > 0 else None


def take_no_more_than(share: float | None) -> None:
    """Of the GPU, by this process. What torch keeps for later passes would grow into what a server takes when its
    batches are large, and the server would end of it, where an update takes smaller micro-batches."""
    if share is not None:
        torch.cuda.set_per_process_memory_fraction(share)


def least_needs(spec: RunSpec, base_dtype: torch.dtype) -> LeastNeeds:
    """Of a server of the run's own and of an update with the base model in this arithmetic.

    Where the run has no such server, what is told of one counts no room for adapters.
    """
    config, limit = AutoConfig.from_pretrained(spec.base_model), spec.vllm.max_context_tokens
    figures = figures_of(config, max_context_tokens=spec.chat.max_context_tokens, is_held=False, lora=spec.lora)
    slots_bytes = 0
    if _has_own_server(spec):
        slots = adapters_at_once(spec.policy_versions)
        slots_bytes = slots * slot_parameters(config) * held_rank(spec.lora.rank) * torch.bfloat16.itemsize
    return LeastNeeds.of(
        figures,
        cache_bytes_per_token=KvSlots.bytes_per_token(config.get_text_config()) // 2,  # Counted in single precision.
        update_bytes=base_dtype.itemsize,
        context_tokens=min(figures.max_context_tokens, limit or figures.max_context_tokens),
        slots_bytes=slots_bytes,
    )


def _has_own_server(spec: RunSpec) -> bool:
    return spec.engine == Engine.VLLM and not spec.vllm.servers


def _with(spec: RunSpec, **changes: float) -> RunSpec:
    return spec.model_copy(update={"vllm": spec.vllm.model_copy(update=changes)})


def own_gpu() -> GpuMemory | None:
    """What this process trains on; None where that is no GPU."""
    return GpuMemory(*torch.cuda.mem_get_info()) if torch.cuda.is_available() else None
