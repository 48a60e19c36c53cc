"""A round of which too many rollouts failed is held: trials until the endpoint answers, then the rest again."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rft.core.dataset import DatasetRow
from rft.core.events import HoldBegan, HoldEnded
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.messages import ToolCall
from rft.core.rollout import Rollout
from rft.core.spec import HoldRule
from rft.egress.limits import BreakerChange
from rft.rollouts.deadlines import Deadlines
from rft.rollouts.executor import StepRollouts, run_evaluation, run_step
from rft.rollouts.failure_actions import FAILURE_ACTIONS, FailureAction
from rft.rollouts.group import StepRow
from rft.rollouts.hold import FailingEndpoint, Hold, HoldExpired, UnrecoverableRound
from rft.rollouts.sampler import SampleRequest
from rft.rollouts.setup import RolloutSetup
from rft.testing.samplers import ScriptedSampler, chance_of, tool_call_text
from rft.testing.samplers_gateways import FunctionTools
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock
from rft.testing.samplers_tokenizer import ByteTokenizer
from tests.shared.examples import examples

MakeSetup = Callable[..., RolloutSetup]
TURNS = [tool_call_text("search", '{"q": 1}'), "The answer is 4."]
RULE = HoldRule(excluded_share=0.25, max_s=1000.0, first_trial_s=2.0, max_trial_s=60.0)


@dataclass(slots=True)
class Book:
    """What a held round told."""

    told: list[tuple[float, HoldBegan | HoldEnded]] = field(default_factory=list[tuple[float, HoldBegan | HoldEnded]])
    ended: list[tuple[float, Rollout]] = field(default_factory=list[tuple[float, Rollout]])

    def tell(self, event: HoldBegan | HoldEnded) -> None:
        self.told.append((virtual_clock(), event))

    def note(self, rollout: Rollout, was_replaced: bool) -> None:
        self.ended.append((virtual_clock(), rollout))

    def hold(self, rule: HoldRule = RULE) -> Hold:
        return Hold(rule, tell=self.tell, blame=no_breaker, deadlines=Deadlines())

    async def round(
        self, rows: list[DatasetRow], setup: RolloutSetup, *, replacement_share: float = 0.0
    ) -> StepRollouts:
        return await run_step(
            [StepRow(row, 0) for row in rows],
            setup=setup,
            job_id="ftjob-1",
            job_seed=5,
            step=2,
            group_size=4,
            replacement_share=replacement_share,
            on_rollout=self.note,
        )

    @property
    def kinds(self) -> list[tuple[float, str]]:
        return [(at, event.type) for at, event in self.told]


def no_breaker(change: BreakerChange) -> FailingEndpoint:
    raise AssertionError(f"there is no breaker here: {change}")


class DownUntil(FunctionTools):
    """Every call fails until that moment, and always those whose turn `is_unlucky` says it is."""

    def __init__(
        self,
        up_s: float,
        code: FailureCode = FailureCode.SERVER_ERROR,
        is_unlucky: Callable[[int], bool] = lambda number: False,
    ) -> None:
        async def answer(call: ToolCall, trace_id: str) -> str | Failure:
            number = len(self.calls)
            await asyncio.sleep(0.0)
            if virtual_clock() < up_s or is_unlucky(number):
                return Failure(stage=Stage.TOOL, code=code, message="search answered 503", endpoint="search")
            return "here"

        super().__init__(answer)


class Crowded(FunctionTools):
    """Answers who is alone."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self._inside = 0

    async def _answer(self, call: ToolCall, trace_id: str) -> str | Failure:
        self._inside += 1
        await asyncio.sleep(1.0)
        is_alone = self._inside == 1
        await asyncio.sleep(1.0)
        self._inside -= 1
        if is_alone:
            return "here"
        return Failure(stage=Stage.TOOL, code=FailureCode.SERVER_ERROR, message="too many", endpoint="search")


def step(rows: list[DatasetRow], setup: RolloutSetup, book: Book, *, replacement_share: float = 0.0) -> StepRollouts:
    return run_in_virtual_time(book.round(rows, setup, replacement_share=replacement_share))


def outcomes(done: StepRollouts) -> list[float | None]:
    return [reward for group in done.groups for reward in group.rewards_G]


def test_the_round_waits_with_growing_pauses_and_ends_whole(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    book, tools = Book(), DownUntil(20.0)
    done = step(rows, make_setup(TURNS, tools=tools, hold=book.hold()), book)
    assert outcomes(done) == [1.0] * 16
    assert book.kinds == [(0.0, "hold_began"), (30.0, "hold_ended")]
    began = book.told[0][1]
    assert isinstance(began, HoldBegan)
    assert (began.step, began.stage, began.endpoint) == (2, Stage.TOOL, "tool 'search'")
    assert began.reason == "16 of 16 rollouts failed, for example: search answered 503"
    trials = [at for at, _ in book.ended if at > 0.0]
    assert trials == [2.0, 6.0, 14.0, *[30.0] * 16], "one at a time, until one is graded"
    assert len(done.replaced) == 16 + 3
    assert len({rollout.trace_id for _, rollout in book.ended}) == len(book.ended) == 35


def undecided(request: SampleRequest, prompt: str) -> str:
    """Half of the rollouts, by their seed, ask the tool; the others answer without it."""
    asks = "<tool_response>" not in prompt and chance_of(request).random() < 0.5
    return TURNS[0] if asks else TURNS[1]


def test_an_outage_does_not_choose_the_rollouts_that_get_by_without_the_tool(
    rows: list[DatasetRow], make_setup: MakeSetup
) -> None:
    """Nor does one of these pass for an answer of the tool. Whoever asked it asks it again."""
    sampler = ScriptedSampler(ByteTokenizer(), undecided)

    def calls_by_slot(up_s: float, book: Book) -> list[int]:
        done = step(rows, make_setup(sampler, tools=DownUntil(up_s), hold=book.hold()), book)
        assert outcomes(done) == [1.0] * 16
        return [sum(len(turn.results) for turn in one.trace.turns) for group in done.groups for one in group.rollouts]

    undisturbed, held = Book(), Book()
    expected = calls_by_slot(0.0, undisturbed)
    assert 4 <= sum(expected) <= 12
    assert calls_by_slot(1000.0 - 60.0, held) == expected
    assert [event.type for _, event in held.told] == ["hold_began", "hold_ended"]
    seeds = {(one.key.row_index, one.key.index): one.key.seed for _, one in undisturbed.ended}
    assert {(one.key.row_index, one.key.index, one.key.seed) for _, one in held.ended} == {
        (*slot, seed) for slot, seed in seeds.items()
    }
    assert len({(one.key.row_index, one.key.index, one.key.attempt) for _, one in held.ended}) == len(held.ended)


def test_each_trial_is_another_rollouts_turn(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    """One row that always fails must not keep the others waiting."""
    book = Book()
    step(rows, make_setup(TURNS, tools=DownUntil(20.0), hold=book.hold()), book)
    tried = [(rollout.key.row_index, rollout.key.index) for at, rollout in book.ended if 0.0 < at < 30.0]
    assert len(set(tried)) == len(tried)


def test_graded_rollouts_are_kept_and_never_run_again(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    book = Book()
    tools = DownUntil(0.0, is_unlucky=lambda number: 4 < number <= 16)
    done = step(rows, make_setup(TURNS, tools=tools, hold=book.hold()), book)
    assert outcomes(done) == [1.0] * 16
    attempts = Counter(rollout.key.attempt for group in done.groups for rollout in group.rollouts)
    assert attempts == {0: 4, 1: 12}
    assert len(tools.calls) == 28
    assert len(done.replaced) == 12


def test_a_share_that_is_bearable_holds_nothing(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    book = Book()
    tools = DownUntil(0.0, is_unlucky=lambda number: number <= 4)
    done = step(rows, make_setup(TURNS, tools=tools, hold=book.hold()), book)
    assert outcomes(done).count(None) == 4
    assert (book.told, done.replaced) == ([], [])


def test_our_own_failure_holds_nothing(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    book = Book()
    tools = DownUntil(1e9, FailureCode.INTERNAL_ERROR)
    done = step(rows, make_setup(TURNS, tools=tools, hold=book.hold(), platform_failure_share=1.0), book)
    assert outcomes(done) == [None] * 16
    assert book.told == []


def test_a_refused_address_is_waited_for_since_its_name_may_come_to_lead_elsewhere(
    rows: list[DatasetRow], make_setup: MakeSetup
) -> None:
    book = Book()
    done = step(rows, make_setup(TURNS, tools=DownUntil(20.0, FailureCode.BLOCKED_ADDRESS), hold=book.hold()), book)
    assert outcomes(done) == [1.0] * 16
    assert book.kinds == [(0.0, "hold_began"), (30.0, "hold_ended")]


ORDER = [code for code, action in FAILURE_ACTIONS.items() if action is FailureAction.FAIL_JOB]


@pytest.mark.parametrize("code", ORDER)
def test_what_no_waiting_heals_ends_the_step_at_once_with_its_rollouts_told(
    rows: list[DatasetRow], make_setup: MakeSetup, code: FailureCode
) -> None:
    book = Book()
    tools = DownUntil(0.0, code, is_unlucky=lambda number: number <= 5)
    with pytest.raises(
        UnrecoverableRound, match=f"ended with {code}.*because of tool 'search': 5 of 16 rollouts"
    ) as error:
        step(rows, make_setup(TURNS, tools=tools, hold=book.hold()), book)
    assert (error.value.code, error.value.failing.stage) == (code, Stage.TOOL)
    assert book.told == []
    assert [at for at, _ in book.ended] == [0.0] * 16
    assert [rollout.reward for _, rollout in book.ended].count(None) == 5


def test_what_no_waiting_heals_below_the_threshold_is_excluded(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    book = Book()
    tools = DownUntil(0.0, FailureCode.GRADER_ERROR, is_unlucky=lambda number: number <= 4)
    done = step(rows, make_setup(TURNS, tools=tools, hold=book.hold()), book)
    assert outcomes(done).count(None) == 4


def test_an_evaluation_trains_nothing_and_is_used_as_it_came_out(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    book = Book()
    done = run_in_virtual_time(
        run_evaluation(
            rows, setup=make_setup(TURNS, tools=DownUntil(1e9, FailureCode.GRADER_ERROR), hold=book.hold()),
            job_id="j", job_seed=5, step=4, samples=1, on_rollout=book.note,
        )
    )  # fmt: skip
    assert outcomes(done) == [None] * 4
    assert book.told == []


def test_what_may_heal_is_waited_for_before_what_cannot_ends_the_step(
    rows: list[DatasetRow], make_setup: MakeSetup
) -> None:
    """Three rollouts break on the order and three on the endpoint: waiting heals enough of them."""
    book = Book()

    async def answer(call: ToolCall, trace_id: str) -> str | Failure:
        number = len(tools.calls)
        code = FailureCode.OVERSIZE_REQUEST if number <= 3 else FailureCode.TIMEOUT
        if number <= 6:
            return Failure(stage=Stage.TOOL, code=code, message="no", endpoint="search")
        return "here"

    tools = FunctionTools(answer)
    done = step(rows, make_setup(TURNS, tools=tools, hold=book.hold()), book)
    assert outcomes(done).count(None) == 3
    assert [event.type for _, event in book.told] == ["hold_began", "hold_ended"]


def test_a_hold_without_end_fails_the_round(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    book = Book()
    with pytest.raises(HoldExpired, match="held for 1000 s because of tool 'search'"):
        step(rows, make_setup(TURNS, tools=DownUntil(1e9), hold=book.hold()), book)
    assert book.kinds == [(0.0, "hold_began")]
    assert len(book.ended) == 16 + 5 + 15, "16 at first, then after 2, 6, 14, 30, 62 s and every 60 s"


def test_an_endpoint_that_passes_trials_and_fails_under_load_shares_one_patience(
    rows: list[DatasetRow], make_setup: MakeSetup
) -> None:
    """A trial is graded each time; the fifteen others fail again each time."""
    book = Book()
    setup = make_setup(TURNS, tools=Crowded(), hold=book.hold(HoldRule(max_s=600.0)))
    with pytest.raises(HoldExpired):
        run_in_virtual_time(
            run_step(
                [StepRow(row, 0) for row in rows], setup=setup, job_id="j", job_seed=5, step=2, group_size=16,
                replacement_share=0.0, on_rollout=book.note,
            )
        )  # fmt: skip
    held_s = sum(event.held_s for _, event in book.told if isinstance(event, HoldEnded))
    assert 500.0 < held_s <= 600.0
    assert book.kinds[-1][1] == "hold_began"


def test_an_evaluation_is_held_too(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    book = Book()
    done = run_in_virtual_time(
        run_evaluation(
            rows, setup=make_setup(TURNS, tools=DownUntil(5.0), hold=book.hold()), job_id="j", job_seed=5, step=4,
            samples=1, on_rollout=book.note,
        )
    )  # fmt: skip
    assert outcomes(done) == [1.0] * 4
    assert [event.type for _, event in book.told] == ["hold_began", "hold_ended"]
    assert len(done.replaced) == 4 + 1


def test_replacements_of_the_step_come_first(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    book = Book()
    tools = DownUntil(0.0, is_unlucky=lambda number: number <= 6)
    done = step(rows, make_setup(TURNS, tools=tools, hold=book.hold()), book, replacement_share=0.25)
    assert outcomes(done).count(None) == 2
    assert len(done.replaced) == 4
    assert book.told == []


def test_cancelling_a_held_round_ends_it_at_once(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    book = Book()

    async def main() -> None:
        setup = make_setup(TURNS, tools=DownUntil(1e9), hold=book.hold())
        running = asyncio.create_task(
            run_evaluation(rows, setup=setup, job_id="j", job_seed=5, step=4, samples=1, on_rollout=book.note)
        )
        await asyncio.sleep(40.0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert virtual_clock() == 40.0
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(main())
    assert [event.type for _, event in book.told] == ["hold_began"]


@settings(deadline=None, max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.integers(1, 120), max_size=90), st.floats(0.05, 0.9))
def test_whatever_fails_when_a_round_comes_out_usable_and_keeps_what_was_graded(
    rows: list[DatasetRow], make_setup: MakeSetup, unlucky: set[int], share: float
) -> None:
    book = Book()
    tools = DownUntil(0.0, is_unlucky=lambda number: number in unlucky)
    rule = HoldRule(excluded_share=share, max_s=1e6, max_trial_s=60.0)
    done = step(rows, make_setup(TURNS, tools=tools, hold=book.hold(rule)), book)
    assert outcomes(done).count(None) <= share * 16
    assert [len(group.rollouts) for group in done.groups] == [4] * 4
    last = {(rollout.key.row_index, rollout.key.index): rollout for _, rollout in book.ended}
    assert [last[(r.key.row_index, r.key.index)] for group in done.groups for r in group.rollouts] == [
        rollout for group in done.groups for rollout in group.rollouts
    ]
    graded = Counter((r.key.row_index, r.key.index) for _, r in book.ended if r.reward is not None)
    assert max(graded.values(), default=1) == 1, "a graded slot is never filled again"
    assert len(book.ended) == 16 + len(done.replaced)
    kinds = [event.type for _, event in book.told]
    assert kinds == ["hold_began", "hold_ended"] * (len(kinds) // 2)


@pytest.mark.parametrize("is_other_held", [True, False])
def test_what_little_fails_while_another_round_waits_is_tried_again_after_it(
    rows: list[DatasetRow], make_setup: MakeSetup, is_other_held: bool
) -> None:
    """Alone it is few enough to be left out; in the same outage it is no loss to be borne."""
    book, calls = Book(), iter(range(100))

    async def answer(call: ToolCall, trace_id: str) -> str | Failure:
        if next(calls) == 0:
            return Failure(stage=Stage.TOOL, code=FailureCode.SERVER_ERROR, message="answered 503", endpoint="search")
        await asyncio.sleep(30.0)
        return "here"

    async def both() -> StepRollouts:
        hold = book.hold()
        one = make_setup(TURNS, tools=DownUntil(10.0 if is_other_held else 0.0), hold=hold)
        other = make_setup(TURNS, tools=FunctionTools(answer), hold=hold)
        _, done = await asyncio.gather(book.round(rows, one), book.round(rows, other))
        return done

    done = run_in_virtual_time(both())
    assert outcomes(done).count(None) == (0 if is_other_held else 1)
    assert len(done.replaced) == (1 if is_other_held else 0)
    assert [kind for _, kind in book.kinds] == (["hold_began", "hold_ended"] if is_other_held else [])
