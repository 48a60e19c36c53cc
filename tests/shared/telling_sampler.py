"""A scripted sampler that tells its tokens, as an engine in the process does."""

import asyncio

from rft.rollouts.sampler import Sample, SampleRequest
from rft.testing.samplers import ScriptedSampler


class TellingSampler(ScriptedSampler):
    """Tells them one by one."""

    told = 0
    """Tokens, in all."""

    async def sample(self, request: SampleRequest) -> Sample:
        sample = await super().sample(request)
        for token_id, logprob in zip(sample.token_ids, sample.logprobs, strict=True):
            if request.progress.on_tokens is not None:
                request.progress.on_tokens((token_id,), (logprob,))
            self.told += 1
            await asyncio.sleep(0)
        return sample
