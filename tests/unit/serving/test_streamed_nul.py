"""NUL in what a model writes is U+FFFD for whoever reads it, streamed or whole."""

import pytest

from rft.core.messages import Message, Role
from rft.rollouts.sampler import Sample, SampleRequest
from rft.testing.samplers import ScriptedSampler
from rft.testing.samplers_time import run_in_virtual_time
from tests.unit.serving.conversing import TOKENIZER, completions, events_of, prompt_and_choices, request, told_text


class Tells(ScriptedSampler):
    """Its tokens, one by one."""

    async def sample(self, request: SampleRequest) -> Sample:
        sample = await super().sample(request)
        for token, logprob in zip(sample.token_ids, sample.logprobs, strict=True):
            if request.progress.on_tokens is not None:
                request.progress.on_tokens((token,), (logprob,))
        return sample


def script(request: SampleRequest, prompt: str) -> str:
    del request, prompt
    return "One\x00two."


@pytest.mark.parametrize("is_streamed", [True, False])
def test_an_answer_with_nul_is_told_once(is_streamed: bool) -> None:
    wanted = request([Message(role=Role.USER, content="Go.")], is_streamed=is_streamed)
    events = run_in_virtual_time(events_of(completions(Tells(TOKENIZER, script)), wanted))
    _, (choice,) = prompt_and_choices(events)
    assert choice.content == "One\ufffdtwo."
    assert told_text(events) == (choice.content if is_streamed else "")
