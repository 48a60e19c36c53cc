"""A sampler with as many places as it is given, and a queue before them."""

import asyncio
from pathlib import Path

from rft.rollouts.sampler import Sample, SampleRequest
from rft.testing.samplers import ModelFreeEngine


class DelegatingEngine:
    """Another engine, for subclasses that change what `sample` does."""

    def __init__(self, inner: ModelFreeEngine) -> None:
        self._inner = inner

    @property
    def policy_version(self) -> int:
        """The inner sampler's."""
        return self._inner.policy_version

    @property
    def max_context_tokens(self) -> int:
        """The inner sampler's."""
        return self._inner.max_context_tokens

    async def publish(self, version: int, adapter_dir: Path) -> None:
        """As the inner sampler does."""
        await self._inner.publish(version, adapter_dir)

    async def close(self) -> None:
        """As the inner sampler does."""
        await self._inner.close()

    async def sample(self, request: SampleRequest) -> Sample:
        """As the inner sampler does. Raises SamplerError."""
        return await self._inner.sample(request)


class SlottedSampler(DelegatingEngine):
    """What another sampler says, token by token, for so many requests at once; the others wait and say so."""

    def __init__(self, inner: ModelFreeEngine, *, slots: int, token_s: float) -> None:
        """`token_s`: seconds that one token takes."""
        super().__init__(inner)
        self._slots, self._token_s = asyncio.Semaphore(slots), token_s

    async def sample(self, request: SampleRequest) -> Sample:
        """One sample, once a place is free. Raises SamplerError as the inner sampler does."""
        with request.progress.queued():
            await self._slots.acquire()
        try:
            sample = await super().sample(request)
            for number in range(len(sample.token_ids)):
                await asyncio.sleep(self._token_s)
                request.progress.sampled_tokens = number + 1
            return sample
        finally:
            self._slots.release()
