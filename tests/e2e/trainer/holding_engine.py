"""A model-free engine of several versions: `tests.e2e.trainer.holding_engine:holding_engine`."""

from pathlib import Path

from rft.chat.hermes import HermesChatFormat
from rft.core.errors import SamplerError
from rft.core.spec import RunSpec
from rft.engines.version_use import VersionUse
from rft.rollouts.sampler import Sample, SampleRequest
from rft.testing.samplers import ModelFreeEngine, fake_engine
from rft.testing.samplers_slots import DelegatingEngine


class HoldingEngine(DelegatingEngine):
    """Says the same under every version, and serves only those that are the newest or held."""

    def __init__(self, inner: ModelFreeEngine) -> None:
        super().__init__(inner)
        self._versions = VersionUse()

    @property
    def policy_version(self) -> int:
        return self._versions.newest

    async def publish(self, version: int, adapter_dir: Path) -> None:
        self._versions.publish(version)
        self._drop_unused()

    async def sample(self, request: SampleRequest) -> Sample:
        if request.policy_version not in self._versions.live:
            raise SamplerError(f"policy version {request.policy_version} is not served any more")
        return await super().sample(request)

    def rollout_began(self, rollout_id: str, version: int) -> None:
        if not self._versions.hold(rollout_id, version):
            raise SamplerError(f"policy version {version} is not served any more")

    def rollout_ended(self, rollout_id: str) -> None:
        self._versions.release(rollout_id)
        self._drop_unused()

    def _drop_unused(self) -> None:
        for version in self._versions.unused:
            self._versions.forget(version)


def holding_engine(base_model_dir: Path, spec: RunSpec, chat_format: HermesChatFormat) -> HoldingEngine:
    """Over the shipped fake."""
    return HoldingEngine(fake_engine(base_model_dir, spec, chat_format))
