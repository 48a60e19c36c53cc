"""NUL in what a model writes is U+FFFD for whoever reads it, streamed or whole."""

import pytest

from rft.core.messages import Message, Role
from rft.rollouts.sampler import SampleRequest
from rft.testing.samplers_time import run_in_virtual_time
from tests.shared.telling_sampler import TellingSampler
from tests.unit.serving.conversing import TOKENIZER, completions, events_of, prompt_and_choices, request, told_text


def script(request: SampleRequest, prompt: str) -> str:
    del request, prompt
    return "One\x00two."


@pytest.mark.parametrize("is_streamed", [True, False])
def test_an_answer_with_nul_is_told_once(is_streamed: bool) -> None:
    wanted = request([Message(role=Role.USER, content="Go.")], is_streamed=is_streamed)
    events = run_in_virtual_time(events_of(completions(TellingSampler(TOKENIZER, script)), wanted))
    _, (choice,) = prompt_and_choices(events)
    assert choice.content == "One\ufffdtwo."
    assert told_text(events) == (choice.content if is_streamed else "")
