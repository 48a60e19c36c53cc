"""A model-free engine that loses what a test wants it to: `tests.e2e.trainer.losing_engine:losing_engine`."""

from collections.abc import Callable
from pathlib import Path

from rft.chat.hermes import HermesChatFormat
from rft.core.errors import SamplerError
from rft.core.spec import RunSpec
from rft.rollouts.sampler import Sample, SampleRequest
from rft.testing.samplers import FakeSampler, fake_engine

Loses = Callable[[int, SampleRequest], bool]
"""By policy version and request."""
LOSES: list[Loses] = []
"""What is in force; the process's own."""


class LosingEngine:
    """What a sampler says, unless it is lost."""

    def __init__(self, inner: FakeSampler) -> None:
        self._inner = inner

    @property
    def policy_version(self) -> int:
        return self._inner.policy_version

    @property
    def max_context_tokens(self) -> int:
        return self._inner.max_context_tokens

    async def publish(self, version: int, adapter_dir: Path) -> None:
        await self._inner.publish(version, adapter_dir)

    async def close(self) -> None:
        await self._inner.close()

    async def sample(self, request: SampleRequest) -> Sample:
        if any(loses(self.policy_version, request) for loses in LOSES):
            raise SamplerError("lost on purpose")
        return await self._inner.sample(request)


def losing_engine(base_model_dir: Path, spec: RunSpec, chat_format: HermesChatFormat) -> LosingEngine:
    """Over the shipped fake."""
    return LosingEngine(fake_engine(base_model_dir, spec, chat_format))
