"""A model-free engine that loses what a test wants it to: `tests.e2e.trainer.losing_engine:losing_engine`."""

from collections.abc import Callable
from pathlib import Path

from rft.chat.hermes import HermesChatFormat
from rft.core.errors import SamplerError
from rft.core.spec import RunSpec
from rft.rollouts.sampler import Sample, SampleRequest
from rft.testing.samplers import fake_engine
from rft.testing.samplers_slots import DelegatingEngine

Loses = Callable[[int, SampleRequest], bool]
"""By policy version and request."""
LOSES: list[Loses] = []
"""What is in force; the process's own."""


class LosingEngine(DelegatingEngine):
    """What a sampler says, unless it is lost."""

    async def sample(self, request: SampleRequest) -> Sample:
        if any(loses(self.policy_version, request) for loses in LOSES):
            raise SamplerError("lost on purpose")
        return await super().sample(request)


def losing_engine(base_model_dir: Path, spec: RunSpec, chat_format: HermesChatFormat) -> LosingEngine:
    """Over the shipped fake."""
    return LosingEngine(fake_engine(base_model_dir, spec, chat_format))
