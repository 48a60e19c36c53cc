"""What a request is told that waits for its adapter."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from rft.core.messages import Message, Role
from rft.rollouts.sampler import SampleRequest
from rft.serving.completions import Completions
from rft.serving.policies import ServedPolicies
from rft.serving.remembered import RememberedConversations
from rft.serving_wire.records import AdapterRef, Event
from rft.testing.samplers import ScriptedSampler
from rft.testing.samplers_time import run_in_virtual_time
from tests.unit.serving.conversing import TOKENIZER, OneChat, events_of, prompt_and_choices, refusal, request

QUESTION = Message(role=Role.USER, content="Go.")


def script(request: SampleRequest, prompt: str) -> str:
    del request, prompt
    return "Done."


async def told_while_held(folder: Path, held_s: float) -> Sequence[Event]:
    """What a request is told whose adapter waits for that long at an engine that samples from another one."""
    engine = ScriptedSampler(TOKENIZER, script, max_context_tokens=10_000)
    policies = ServedPolicies(engine, queue_s=5.0)
    served = Completions(engine, OneChat(), policies, RememberedConversations(0))

    async def hold() -> None:
        async with policies.sampling_from(None):
            await asyncio.sleep(held_s)

    holding = asyncio.create_task(hold())
    await asyncio.sleep(0)
    wanted = request([QUESTION], is_streamed=True).model_copy(update={"adapter": AdapterRef(directory=str(folder))})
    events = await events_of(served, wanted)
    await holding
    return events


def test_who_waits_too_long_is_told_nothing_else(tmp_path: Path) -> None:
    """The first event begins a reply: whatever is refused behind it has the status of one that went well."""
    assert refusal(run_in_virtual_time(told_while_held(tmp_path, 60))).code == "other_checkpoint_in_use"


def test_who_is_let_in_is_answered(tmp_path: Path) -> None:
    prompt, (choice,) = prompt_and_choices(run_in_virtual_time(told_while_held(tmp_path, 1)))
    assert prompt.prompt_tokens > 0
    assert choice.content == "Done."
