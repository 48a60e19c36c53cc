"""What the platform could not finish is left out, up to a share; above it the round is done anew, then given up."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rft.chat.hermes import HermesChatFormat
from rft.core.dataset import DatasetRow
from rft.core.events import RoundRedone
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.group import Group
from rft.core.messages import ToolCall
from rft.core.rollout import Rollout, RolloutKey, Split
from rft.core.spec import Budgets
from rft.rollouts.executor import StepRollouts, run_evaluation, run_step
from rft.rollouts.group import StepRow
from rft.rollouts.loop import run_rollout
from rft.rollouts.lost_rounds import LostRollouts, RoundLost
from rft.rollouts.sampler import SampleRequest
from rft.rollouts.setup import RolloutSetup
from rft.rollouts.stats import rollout_stats
from rft.testing.samplers import ScriptedSampler, tool_call_text
from rft.testing.samplers_gateways import FunctionTools
from rft.testing.samplers_slots import SlottedSampler
from rft.testing.samplers_time import run_in_virtual_time
from tests.shared.by_hand import group_of, trace_of

MakeSetup = Callable[..., RolloutSetup]
SEARCH = tool_call_text("search", '{"q": 1}')
TURNS = [SEARCH, "The answer is 4."]


class Book:
    """What was told of a round."""

    def __init__(self) -> None:
        self.ended: list[Rollout] = []
        self.redone: list[RoundRedone] = []

    def note(self, rollout: Rollout, was_replaced: bool) -> None:
        self.ended.append(rollout)

    def step(
        self, rows: list[DatasetRow], setup: RolloutSetup, *, group_size: int = 8, replacement_share: float = 0.0
    ) -> StepRollouts:
        return run_in_virtual_time(
            run_step(
                [StepRow(row, 0) for row in rows],
                setup=setup,
                job_id="ftjob-1",
                job_seed=5,
                step=2,
                group_size=group_size,
                replacement_share=replacement_share,
                on_rollout=self.note,
            )
        )

    def evaluation(self, rows: list[DatasetRow], setup: RolloutSetup, *, samples: int = 2) -> StepRollouts:
        return run_in_virtual_time(
            run_evaluation(
                rows, setup=setup, job_id="ftjob-1", job_seed=5, step=7, samples=samples, on_rollout=self.note
            )
        )


class LosesSome(FunctionTools):
    """Our own failure in place of the answer to those calls, counted from 1, that `is_lost` names."""

    def __init__(self, is_lost: Callable[[int], bool], code: FailureCode = FailureCode.INTERNAL_ERROR) -> None:
        async def answer(call: ToolCall, trace_id: str) -> str | Failure:
            if is_lost(len(self.calls)):
                return Failure(stage=Stage.PLATFORM, code=code, message="Out of luck.")
            return "here"

        super().__init__(answer)


def endless(chat_format: HermesChatFormat, is_straggler: Callable[[SampleRequest], bool]) -> SlottedSampler:
    """A call, then an answer; of stragglers' answers no end is ever seen."""

    def script(request: SampleRequest, prompt: str) -> str:
        if "<tool_response>" not in prompt:
            return SEARCH
        return "and " * 1000 if is_straggler(request) else "The answer is 4."

    inner = ScriptedSampler(chat_format.tokenizer, script, max_context_tokens=100_000)
    return SlottedSampler(inner, slots=1000, token_s=0.1)


def first_seen() -> Callable[[SampleRequest], bool]:
    """Whether a request is the first one that this was asked about."""
    seen: list[int] = []

    def is_first(request: SampleRequest) -> bool:
        seen.append(request.seed)
        return request.seed == seen[0]

    return is_first


def test_one_straggler_of_32_leaves_a_step_of_31(
    rows: list[DatasetRow], make_setup: MakeSetup, chat_format: HermesChatFormat
) -> None:
    book, budgets = Book(), Budgets(deadline_s=60.0)
    setup = make_setup(endless(chat_format, first_seen()), budgets=budgets, on_redo=book.redone.append)
    done = book.step(rows, setup)
    rewards = [reward for group in done.groups for reward in group.rewards_G]
    assert (rewards.count(1.0), rewards.count(None)) == (31, 1)
    assert book.redone == []
    [straggler] = [rollout for rollout in book.ended if isinstance(rollout.outcome, Failure)]
    assert isinstance(straggler.outcome, Failure)
    assert straggler.outcome.code is FailureCode.PLATFORM_DEADLINE
    assert straggler.stop_reason is None
    stats = rollout_stats(done.groups, done.replaced)
    kept = next(rollout for rollout in book.ended if rollout.reward is not None)
    call_tokens = straggler.trace.sampled_tokens
    assert stats.completion_tokens_mean == kept.trace.sampled_tokens
    # 60 s make 600 tokens, less those of its first turn; the last one may be just under way.
    assert stats.excluded_completion_tokens_mean == pytest.approx(600, abs=2)
    assert straggler.cut_tokens == pytest.approx(600 - call_tokens, abs=2)
    assert (stats.tool_calls_mean, stats.excluded_tool_calls_mean) == (1.0, 1.0)
    assert (stats.turns_mean, stats.excluded_turns_mean) == (2.0, 1.0)
    assert stats.completion_tokens_total == 31 * kept.trace.sampled_tokens + straggler.sampled_tokens


def test_a_straggler_is_replaced_like_any_other_failure(
    rows: list[DatasetRow], make_setup: MakeSetup, chat_format: HermesChatFormat
) -> None:
    book = Book()
    setup = make_setup(endless(chat_format, first_seen()), budgets=Budgets(deadline_s=60.0))
    done = book.step(rows, setup, replacement_share=0.1)
    assert [reward for group in done.groups for reward in group.rewards_G] == [1.0] * 32
    [replaced] = done.replaced
    stats = rollout_stats(done.groups, done.replaced)
    assert stats.excluded_completion_tokens_mean == replaced.sampled_tokens > 500, "replaced ones are told, too"


def test_above_the_share_all_is_rolled_out_anew_with_other_seeds(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    book = Book()
    tools = LosesSome(lambda number: number <= 9)
    done = book.step(rows, make_setup(TURNS, tools=tools, on_redo=book.redone.append))
    assert [reward for group in done.groups for reward in group.rewards_G] == [1.0] * 32
    assert len(book.ended) == 64
    first, second = book.ended[:32], book.ended[32:]
    assert {rollout.key.attempt for rollout in first} == {0}
    assert {rollout.key.attempt for rollout in second} == {1}
    assert not {rollout.key.seed for rollout in first} & {rollout.key.seed for rollout in second}
    assert done.replaced == [], "what was void counts in no figure"
    [redone] = book.redone
    assert (redone.step, redone.split, redone.rollouts, redone.lost) == (2, Split.TRAIN, 32, 9)
    assert redone.failures_by_code == {"internal_error": 9}
    assert "9 of 32 rollouts of step 2, more than the 25% that it may lose (9 x internal_error)" in redone.message
    assert "Out of luck." in redone.message


def test_twice_above_the_share_gives_the_round_up(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    book = Book()
    tools = LosesSome(lambda number: number <= 9 or 32 < number <= 48)
    with pytest.raises(RoundLost, match=r"Twice in a row.*16 of 32 rollouts of step 2.*Out of luck"):
        book.step(rows, make_setup(TURNS, tools=tools, on_redo=book.redone.append))
    assert (len(book.ended), len(book.redone)) == (64, 1)


def test_an_evaluation_is_judged_the_same_way(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    book = Book()
    tools = LosesSome(lambda number: number <= 3)
    done = book.evaluation(rows, make_setup(TURNS, tools=tools, on_redo=book.redone.append))
    assert [reward for group in done.groups for reward in group.rewards_G] == [1.0] * 8
    assert [(redone.step, redone.split, redone.lost) for redone in book.redone] == [(7, Split.VALID, 3)]
    with pytest.raises(RoundLost, match="8 of 8 rollouts of the evaluation of step 7"):
        book.evaluation(rows, make_setup(TURNS, tools=LosesSome(lambda number: True)))


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 64).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
    st.sampled_from([0, 0.1, 0.25, 0.5, 1]),
)
def test_only_what_the_platform_lost_counts_against_the_share(counts: tuple[int, int], share: float) -> None:
    """Endpoint failures are a hold's affair, and a share of exactly the limit may be lost."""
    rollouts, lost = counts
    trace = trace_of([1], ("sampled", [2]))
    group = group_of([trace] * rollouts, [None] * rollouts)
    failure = Failure(stage=Stage.SAMPLER, code=FailureCode.SAMPLER_ERROR, message="boom")
    assert not LostRollouts([group], share=share).is_too_many, "they failed at their grader"
    ours = tuple(replace(r, outcome=failure) if i < lost else r for i, r in enumerate(group.rollouts))
    found = LostRollouts([Group(0, ours)], share=share)
    assert (found.rollouts, len(found.failures)) == counts
    assert found.is_too_many == (lost > share * rollouts)


def test_waiting_for_a_place_is_not_the_rollouts_time(
    rows: list[DatasetRow], make_setup: MakeSetup, chat_format: HermesChatFormat
) -> None:
    """32 rollouts, 2 places: the last one waits sixteen times as long as its deadline allows for work."""
    book = Book()
    text = "word " * 15
    inner = ScriptedSampler(chat_format.tokenizer, lambda request, prompt: text)
    one_s = 0.1 * (len(chat_format.tokenizer.encode(text)) + 1)
    sampler = SlottedSampler(inner, slots=2, token_s=0.1)
    done = book.step(rows, make_setup(sampler, budgets=Budgets(deadline_s=one_s * 1.5)))
    assert [reward for group in done.groups for reward in group.rewards_G] == [1.0] * 32
    durations = [rollout.duration_s for rollout in book.ended]
    assert max(durations) == pytest.approx(one_s * 16)
    late = make_setup(SlottedSampler(inner, slots=2, token_s=0.1), budgets=Budgets(deadline_s=one_s * 0.9))
    with pytest.raises(RoundLost):
        book.step(rows, late)


def test_a_straggler_in_the_only_place_costs_those_behind_it_nothing(
    rows: list[DatasetRow], make_setup: MakeSetup, chat_format: HermesChatFormat
) -> None:
    is_straggler = first_seen()
    inner = ScriptedSampler(
        chat_format.tokenizer,
        lambda request, prompt: "and " * 10_000 if is_straggler(request) else "done",
        max_context_tokens=100_000,
    )
    setup = make_setup(SlottedSampler(inner, slots=1, token_s=0.1), budgets=Budgets(deadline_s=60.0))
    done = Book().step(rows, setup)
    rewards = [reward for group in done.groups for reward in group.rewards_G]
    assert (rewards.count(1.0), rewards.count(None)) == (31, 1)


def test_a_queue_that_lets_nobody_in_is_noticed(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, chat_format: HermesChatFormat
) -> None:
    inner = ScriptedSampler(chat_format.tokenizer, lambda request, prompt: "done")
    setup = make_setup(SlottedSampler(inner, slots=0, token_s=0.1), budgets=Budgets(deadline_s=60.0))
    rollout = run_in_virtual_time(run_rollout(row, key, setup))
    assert isinstance(rollout.outcome, Failure)
    assert (rollout.outcome.stage, rollout.outcome.code) == (Stage.SAMPLER, FailureCode.PLATFORM_DEADLINE)
    assert rollout.outcome.message == "The engine let nobody in for 120 s, twice the time that a rollout may take."
    assert rollout.duration_s == pytest.approx(120.0)
