"""Before a run starts a vLLM server on the GPU that it trains on: how much of it the server may take."""

from pathlib import Path

import torch
from transformers import AutoConfig

from rft.core.errors import RunPaused
from rft.core.gpu_share import GpuMemory, GpuTooSmall, LeastNeeds, server_share
from rft.core.spec import Engine, RunSpec
from rft.engines.kv_slots import KvSlots
from rft.trainer.model_figures import figures_of
from rft.vllm_server.environment import is_for_cpu


def with_gpu_share(spec: RunSpec, gpu: GpuMemory | None, base_dtype: torch.dtype) -> RunSpec:
    """The specification with its server's share, where it has none. Raises RunPaused where the two do not fit.

    `gpu`: what the run trains on; None: a CPU, and the whole GPU is the server's. `base_dtype`: of the update's base.
    """
    vllm = spec.vllm
    is_own = spec.engine == Engine.VLLM and not vllm.servers
    if not is_own or vllm.gpu_memory_share is not None or gpu is None or is_for_cpu(Path(vllm.python)):
        return spec
    config = AutoConfig.from_pretrained(spec.base_model)
    figures = figures_of(config, max_context_tokens=spec.chat.max_context_tokens, is_held=False)
    needs = LeastNeeds.of(
        figures,
        cache_bytes_per_token=KvSlots.bytes_per_token(config.get_text_config()) // 2,  # Counted in single precision.
        update_bytes=base_dtype.itemsize,
        context_tokens=min(figures.max_context_tokens, vllm.max_context_tokens or figures.max_context_tokens),
    )
    try:
        share = server_share(needs, gpu)
    except GpuTooSmall as problem:
        raise RunPaused("gpu_too_small", str(problem)) from problem
    return spec.model_copy(update={"vllm": vllm.model_copy(update={"gpu_memory_share": share})})


def own_gpu() -> GpuMemory | None:
    """What this process trains on; None where that is no GPU."""
    return GpuMemory(*torch.cuda.mem_get_info()) if torch.cuda.is_available() else None
