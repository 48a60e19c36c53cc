"""In which arithmetic the base model is, while its adapter is updated."""

from pathlib import Path

import torch

from rft.core.spec import BaseDtype, Engine, RunSpec
from rft.vllm_server.environment import is_for_cpu

_BY_NAME = {BaseDtype.FLOAT32: torch.float32, BaseDtype.BFLOAT16: torch.bfloat16}


def update_dtype(spec: RunSpec) -> torch.dtype:
    """As set; or what fits the sampler, the memory and this machine.

    The engine in this process samples in single precision, so updates are that, too: its log-probabilities stay those
    of the policy that is trained. vLLM samples in half precision on a GPU, and an update that is that, too, takes half
    the memory of the base model and differs from it no more.
    """
    if spec.base_dtype != BaseDtype.AUTO:
        return _BY_NAME[spec.base_dtype]
    is_half = _samples_in_half(spec) and torch.cuda.is_available() and knows_bfloat16()
    return torch.bfloat16 if is_half else torch.float32


def _samples_in_half(spec: RunSpec) -> bool:
    """vLLM's build for CPUs samples in single precision, beside a GPU as well."""
    return spec.engine == Engine.VLLM and (bool(spec.vllm.servers) or not is_for_cpu(Path(spec.vllm.python)))


def knows_bfloat16() -> bool:
    """Whether the GPU computes in it, and does not only imitate it."""
    return torch.cuda.is_bf16_supported(including_emulation=False)
