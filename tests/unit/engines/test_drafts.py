"""Drafts: what is guessed from what was sampled before, and that a guess, right or wrong, changes no sample."""

import asyncio

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rft.engines import slot_scheduler
from rft.engines.drafts import Drafts, Own
from rft.engines.slot_engine import SlotEngine
from rft.engines.slot_requests import Running
from rft.rollouts.sampler import FinishReason, Sample, SampleRequest
from tests.shared.by_hand import tiny_model

TOKENS = st.lists(st.integers(0, 5), max_size=60)


def taught(*conversations: list[int]) -> Drafts:
    known = Drafts()
    for conversation in conversations:
        known.learn(conversation, {}, start=0)
    return known


def test_what_every_conversation_wrote_is_drafted_to_its_end_and_no_further() -> None:
    known = taught(*([1, 2, 3, 4, 5, 6, 7, 8, 9] for _ in range(30)))
    assert known.draft([0, 1, 2, 3], {}, at_most=20) == [4, 5, 6, 7, 8, 9]
    assert known.draft([0, 1, 2, 3], {}, at_most=2) == [4, 5]
    assert known.draft([7, 7, 7], {}, at_most=20) == []
    assert known.draft([], {}, at_most=20) == []


def test_a_branch_that_goes_either_way_is_not_drafted() -> None:
    known = taught(*([1, 2, 3, 4] for _ in range(9)), *([1, 2, 3, 5] for _ in range(9)))
    assert known.draft([1, 2, 3], {}, at_most=3) == []


def test_what_others_stopped_writing_is_forgotten() -> None:
    known = taught(*([1, 2, 3, 4] for _ in range(9)), *([1, 2, 3, 5] for _ in range(60)))
    assert known.draft([1, 2, 3], {}, at_most=1) == [5]


def test_a_conversation_is_drafted_from_its_own_words() -> None:
    tokens = [1, 2, 3, 4, 9, 8, 1, 2]
    assert Drafts().draft(tokens, Drafts.own(tokens), at_most=2) == [3, 4]
    assert Drafts().draft(tokens, {}, at_most=2) == []


@given(st.lists(TOKENS, max_size=5), TOKENS, st.integers(0, 10))
def test_a_draft_is_no_longer_than_asked_and_made_of_known_tokens(
    others: list[list[int]], tokens: list[int], at_most: int
) -> None:
    drafted = taught(*others).draft(tokens, Drafts.own(tokens), at_most=at_most)
    assert len(drafted) <= at_most
    assert set(drafted) <= {token for conversation in (*others, tokens) for token in conversation}


def running(prompt: list[int], draft: list[int], max_tokens: int = 10, stop: int = 99) -> Running:
    loop = asyncio.new_event_loop()
    request = SampleRequest("r", prompt, max_tokens, (stop,), seed=0)
    done = loop.create_future()
    made = Running(request, done, loop, list(prompt), computed=len(prompt), draft=draft)
    loop.close()
    return made


@pytest.mark.parametrize(
    ("draft", "drawn", "tokens", "computed"),
    [
        ([], [7], [7], 2),
        ([7, 8], [7, 8, 9], [7, 8, 9], 4),
        ([7, 8], [7, 5, 9], [7, 5], 3),
        ([7, 8], [6, 8, 9], [6], 2),
        ([7, 99, 8], [7, 99, 8, 1], [7, 99], 4),
        ([7, 8], [99, 8, 1], [99], 2),
    ],
)
def test_draws_count_up_to_the_first_that_was_not_drafted(
    draft: list[int], drawn: list[int], tokens: list[int], computed: int
) -> None:
    running_sample = running([1, 2], draft)
    sample = running_sample.take(drawn, [-0.5] * len(drawn))
    assert running_sample.tokens == [1, 2, *tokens]
    assert running_sample.logprobs == [-0.5] * len(tokens)
    assert running_sample.computed == computed, "tokens whose keys and values are those of what was sampled"
    assert running_sample.draft == []
    if 99 in tokens:
        assert sample == Sample(tuple(tokens), (-0.5,) * len(tokens), FinishReason.STOP)
    else:
        assert sample is None


def test_a_draft_ends_where_the_request_does() -> None:
    running_sample = running([1], [5, 5, 5], max_tokens=2)
    sample = running_sample.take([5, 5, 5, 5], [-1.0] * 4)
    assert sample == Sample((5, 5), (-1.0, -1.0), FinishReason.LENGTH)


async def samples(engine: SlotEngine, rounds: int) -> list[Sample]:
    """Conversations in company that come back for a second turn, the same ones in every round."""

    async def talk(number: int) -> list[Sample]:
        prompt = torch.randint(20, 600, (5 + number,), generator=torch.Generator().manual_seed(number)).tolist()
        temperature = (1.0, 0.7, 0.0)[number % 3]
        first = await engine.sample(SampleRequest("a", prompt, 24, (5,), number, temperature))
        again = [*prompt, *first.token_ids, 30, 31, *prompt[:7]]
        return [first, await engine.sample(SampleRequest("b", again, 24, (5,), number + 100, temperature))]

    done: list[Sample] = []
    for _ in range(rounds):
        done = [sample for pair in await asyncio.gather(*map(talk, range(12))) for sample in pair]
    return done


@pytest.fixture
def model(tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    return tiny_model(tokenizer)


async def test_samples_are_the_same_with_drafts_and_without(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the second round every conversation is drafted whole; with nonsense as drafts, nearly none is."""
    forwards: list[str] = []

    def count(module: torch.nn.Module, inputs: object, outputs: object) -> None:
        del inputs, outputs
        forwards.append(type(module).__name__)

    def nonsense(known: Drafts, tokens: list[int], own: Own, *, at_most: int) -> list[int]:
        del known, tokens, own
        return [17, 18, 19][: max(0, at_most)]

    model.register_forward_hook(count)
    with monkeypatch.context() as patch:
        patch.setattr(slot_scheduler, "_DRAFT_TOKENS", 0)
        plain = SlotEngine(tiny_model(tokenizer), max_context_tokens=256)
        expected = await samples(plain, rounds=1)
        await plain.close()
    engine = SlotEngine(model, max_context_tokens=256)
    await samples(engine, rounds=1)
    unpractised = len(forwards)
    drafted = await samples(engine, rounds=3)
    assert (len(forwards) - unpractised) / 3 < 0.7 * unpractised, "right drafts save passes"
    with monkeypatch.context() as patch:
        patch.setattr(Drafts, "draft", nonsense)
        misled = await samples(engine, rounds=1)
    await engine.close()
    for found in (drafted, misled):
        assert [sample.token_ids for sample in found] == [sample.token_ids for sample in expected]
        assert [sample.finish_reason for sample in found] == [sample.finish_reason for sample in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
