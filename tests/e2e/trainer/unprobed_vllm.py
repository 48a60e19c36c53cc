"""The engine over vLLM servers, for servers without a model: `tests.e2e.trainer.unprobed_vllm:unprobed_vllm`.

Being another class, it is not asked whether its servers sample from the weights that are trained.
"""

from pathlib import Path
from secrets import token_hex

from rft.chat.template_format import TemplateChatFormat
from rft.core.spec import RunSpec
from rft.engines.vllm.adapters import AdapterFolder
from rft.engines.vllm.engine import VllmEngine
from rft.engines.vllm.options import EngineOptions, ServerAddress
from rft.rollouts.sampler import Sample, SampleRequest
from tests.shared.given_out_run import CONTEXT_TOKENS, VLLM_KEY


class UnprobedVllm:
    """All that a run asks of the engine, as it is."""

    def __init__(self, inner: VllmEngine) -> None:
        self._inner = inner

    @property
    def policy_version(self) -> int:
        return self._inner.policy_version

    @property
    def max_context_tokens(self) -> int:
        return self._inner.max_context_tokens

    def adapter_name(self, version: int) -> str | None:
        return self._inner.adapter_name(version)

    def rollout_began(self, rollout_id: str, version: int) -> None:
        self._inner.rollout_began(rollout_id, version)

    def rollout_ended(self, rollout_id: str) -> None:
        self._inner.rollout_ended(rollout_id)

    async def sample(self, request: SampleRequest) -> Sample:
        return await self._inner.sample(request)

    async def publish(self, version: int, adapter_dir: Path) -> None:
        await self._inner.publish(version, adapter_dir)

    async def close(self) -> None:
        await self._inner.close()


def unprobed_vllm(base_model_dir: Path, spec: RunSpec, chat_format: TemplateChatFormat) -> UnprobedVllm:
    """Over the servers of the specification."""
    del chat_format
    adapters = AdapterFolder(base_model_dir.with_name("adapters"), run=spec.job_id, launch=token_hex(4))
    options = EngineOptions(base_model=spec.base_model, max_context_tokens=CONTEXT_TOKENS, api_key=VLLM_KEY)
    return UnprobedVllm(VllmEngine([ServerAddress(url) for url in spec.vllm.servers], adapters, options))
