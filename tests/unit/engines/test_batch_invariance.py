"""What is sampled for a request, and its log-probabilities to the last bit, do not depend on its company."""

import asyncio
import copy
import random

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from rft.engines.slot_engine import SlotEngine
from rft.rollouts.sampler import Sample, SampleRequest

CONTEXT = 1100
VOCABULARY = 384
EVERYONE = range(8)
TURNS = 3


def qwen() -> PreTrainedModel:
    """Two query heads to a key head, norms on queries and keys."""
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY, hidden_size=96, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=24, max_position_embeddings=4096,
        )
    )  # fmt: skip


def llama() -> PreTrainedModel:
    """One query head to a key head."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=64, intermediate_size=200, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=4, max_position_embeddings=4096,
        )
    )  # fmt: skip


@pytest.fixture(scope="module", params=[qwen, llama])
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    torch.manual_seed(0)
    return request.param()


@pytest.fixture(scope="module")
def alone(model: PreTrainedModel) -> dict[int, list[Sample]]:
    """Each conversation as it is in an engine of its own."""
    return {number: sampled(model, [number], threads=1, at_once=False)[number] for number in EVERYONE}


async def conversation(engine: SlotEngine, number: int, *, chance: random.Random) -> list[Sample]:
    """Turns of a conversation that repeats itself, so that drafts are right now and then."""
    own = random.Random(number)
    frame = [own.randrange(20, VOCABULARY) for _ in range(6)]
    tokens = [own.randrange(20, VOCABULARY) for _ in range(own.choice([3, 40, 150, 400]))] + frame
    turns: list[Sample] = []
    for turn in range(TURNS):
        asked = SampleRequest(f"{number}.{turn}", tokens, own.randrange(5, 60), (3,), seed=100 * number + turn)
        turns.append(await engine.sample(asked))
        tokens = [*tokens, *turns[-1].token_ids, *frame, *(own.randrange(20, VOCABULARY) for _ in range(turn * 40))]
        await asyncio.sleep(chance.uniform(0.0, 0.02))
    return turns


def sampled(model: PreTrainedModel, numbers: list[int], *, threads: int, at_once: bool) -> dict[int, list[Sample]]:
    """Conversations in one engine, all at once or one after the other, in any order."""
    chance = random.Random()

    async def converse() -> dict[int, list[Sample]]:
        engine = SlotEngine(copy.deepcopy(model), max_context_tokens=CONTEXT, threads=threads)
        try:
            if at_once:
                found = await asyncio.gather(*(conversation(engine, number, chance=chance) for number in numbers))
            else:
                found = [await conversation(engine, number, chance=chance) for number in numbers]
        finally:
            await engine.close()
        return dict(zip(numbers, found, strict=True))

    chance.shuffle(numbers)
    return asyncio.run(converse())


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.thorough), 2])
def test_a_conversation_is_the_same_to_the_last_bit_alone_and_in_any_company(
    model: PreTrainedModel, alone: dict[int, list[Sample]], threads: int
) -> None:
    assert sampled(model, list(EVERYONE), threads=threads, at_once=True) == alone
    assert sampled(model, list(EVERYONE), threads=threads, at_once=False) == alone
