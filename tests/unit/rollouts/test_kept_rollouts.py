"""A round that is done again: what ended with a grade keeps its place, and only the rest is rolled out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from rft.core.base import JsonObject
from rft.core.dataset import DatasetRow
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.messages import ToolCall
from rft.core.rollout import Rollout, RolloutKey
from rft.rollouts.executor import StepRollouts, run_step
from rft.rollouts.group import StepRow, replacement_key
from rft.rollouts.kept_rollouts import NOTHING_KEPT, EndedRollout, KeptRollouts, kept_by_place
from rft.rollouts.setup import RolloutSetup
from rft.testing.samplers import tool_call_text
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_time import run_in_virtual_time

MakeSetup = Callable[..., RolloutSetup]
TURNS = [tool_call_text("search", '{"q": 1}'), "The answer is 4."]
GROUP = 4


@dataclass(slots=True)
class Told:
    """What a round tells as its rollouts end."""

    ended: list[EndedRollout] = field(default_factory=list[EndedRollout])

    def note(self, rollout: Rollout, was_replaced: bool) -> None:
        self.ended.append(EndedRollout(rollout, was_replaced))


def step(
    rows: Sequence[DatasetRow],
    setup: RolloutSetup,
    told: Told,
    kept: KeptRollouts = NOTHING_KEPT,
    *,
    replacement_share: float = 0.0,
) -> StepRollouts:
    return run_in_virtual_time(
        run_step(
            [StepRow(row, epoch=0) for row in rows],
            setup=setup,
            job_id="ftjob-1",
            job_seed=5,
            step=2,
            group_size=GROUP,
            replacement_share=replacement_share,
            on_rollout=told.note,
            kept=kept,
        )
    )


def kept_of(
    ended: Iterable[EndedRollout], on_refused: Callable[[Sequence[str]], None] = lambda trace_ids: None
) -> KeptRollouts:
    return KeptRollouts(kept_by_place(ended), on_refused=on_refused)


def failing(*numbers: int, code: FailureCode = FailureCode.SERVER_ERROR) -> FunctionTools:
    """Calls with these numbers fail."""

    async def answer(call: ToolCall, trace_id: str) -> str | Failure:
        if len(tools.calls) in numbers:
            return Failure(stage=Stage.TOOL, code=code, message="down", endpoint="search")
        return "here"

    tools = FunctionTools(answer)
    return tools


def rollouts(done: StepRollouts) -> list[Rollout]:
    return [rollout for group in done.groups for rollout in group.rollouts]


def test_only_what_is_missing_is_rolled_out_and_told(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    first = Told()
    whole = rollouts(step(rows, make_setup(TURNS), first))
    tools, again = failing(), Told()
    kept = kept_of(first.ended[:10])
    done = rollouts(step(rows, make_setup(TURNS, tools=tools), again, kept))
    assert {ended.rollout.trace_id for ended in first.ended[:10]} == {
        rollout.trace_id for rollout in done if rollout in whole
    }
    assert [rollout.key for rollout in done] == [rollout.key for rollout in whole]
    assert len(again.ended) == len(tools.calls) == 6
    assert kept.unclaimed == []


def test_a_round_of_which_all_is_kept_calls_nobody(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    first, again, tools = Told(), Told(), failing()
    done = step(rows, make_setup(TURNS), first)
    assert step(rows, make_setup(TURNS, tools=tools), again, kept_of(first.ended)) == done
    assert (tools.calls, again.ended) == ([], [])


def test_a_replaced_failure_stays_with_the_grade_that_took_its_place_and_counts(
    rows: list[DatasetRow], make_setup: MakeSetup
) -> None:
    """Two replacements at most: one was granted before, so that one is left."""
    first = Told()
    before = step(rows[:1], make_setup(TURNS, tools=failing(1)), first, replacement_share=0.5)
    assert len(before.replaced) == 1
    replaced = before.replaced[0]
    place = next(ended for ended in first.ended if ended.rollout.key == replacement_key_of(replaced))
    setup = make_setup(TURNS, tools=failing(1, 2))
    kept = kept_of([EndedRollout(replaced, is_replaced=True), place])
    done = step(rows[:1], setup, Told(), kept, replacement_share=0.5)
    assert done.replaced[0] == replaced
    assert len(done.replaced) == 2
    assert sum(isinstance(rollout.outcome, Failure) for rollout in rollouts(done)) == 1
    assert done.groups[0].rollouts[replaced.key.index] == place.rollout


def replacement_key_of(failed: Rollout) -> RolloutKey:
    key = replacement_key(failed.key)
    return key.model_copy(update={"seed_attempt": failed.key.attempt}) if failed.reward is None else key


def test_a_failure_keeps_no_place(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    first = Told()
    step(rows[:1], make_setup(TURNS, tools=failing(2)), first)
    assert len(kept_by_place(first.ended)) == GROUP - 1
    again = Told()
    done = step(rows[:1], make_setup(TURNS), again, kept_of(first.ended))
    assert [ended.rollout.key.attempt for ended in again.ended] == [0]
    assert None not in done.groups[0].rewards_G
    assert done.replaced == []


def test_a_grade_that_a_missing_tool_took_back_is_none(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    first = Told()
    step(rows[:1], make_setup(TURNS), first)
    taken_back = replace(
        first.ended[0].rollout,
        outcome=Failure(stage=Stage.TOOL, code=FailureCode.ENDPOINT_NOT_FOUND, message="404", endpoint="search"),
    )
    left = kept_by_place([*first.ended, EndedRollout(taken_back, is_replaced=False)])
    assert len(left) == GROUP - 1
    assert taken_back.trace_id not in {trace_id for kept in left.values() for trace_id in kept.trace_ids}


@dataclass(slots=True)
class Judge:
    """Judges whole groups."""

    asked: list[list[str]] = field(default_factory=list[list[str]])

    async def rank(
        self, traces: Sequence[FinishedTrace], *, item: JsonObject, trace_ids: Sequence[str]
    ) -> list[Grade] | Failure:
        self.asked.append(list(trace_ids))
        return [Grade(reward=float(place), grader="judge") for place in range(len(traces))]


async def never(trace: FinishedTrace, trace_id: str) -> float:
    raise AssertionError("single rollouts are not graded")


def test_a_group_that_one_verdict_judges_is_kept_whole_or_not_at_all(
    rows: list[DatasetRow], make_setup: MakeSetup
) -> None:
    first, judge = Told(), Judge()
    step(rows[:2], make_setup(TURNS, grader=FunctionGrader(never), group_grader=Judge()), first)
    whole = [ended for ended in first.ended if ended.rollout.key.row_index == 0]
    part = [ended for ended in first.ended if ended.rollout.key.row_index == 1][:3]
    refused: list[str] = []
    kept, again = kept_of([*whole, *part], on_refused=refused.extend), Told()
    done = step(rows[:2], make_setup(TURNS, grader=FunctionGrader(never), group_grader=judge), again, kept)
    assert list(done.groups[0].rollouts) == [ended.rollout for ended in whole]
    assert judge.asked == [[rollout.trace_id for rollout in done.groups[1].rollouts]]
    assert len(again.ended) == GROUP
    assert sorted(refused) == sorted(ended.rollout.trace_id for ended in part)
    assert kept.unclaimed == []


def test_what_is_kept_is_void_where_the_platform_lost_the_round(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    """All of it is rolled out anew, as without a crash."""
    first = Told()
    step(rows[:1], make_setup(TURNS), first)

    async def bug(call: ToolCall, trace_id: str) -> str | Failure:
        if len(tools.calls) <= 2:
            raise RuntimeError("ours")
        return "here"

    tools, again = FunctionTools(bug), Told()
    done = step(rows[:1], make_setup(TURNS, tools=tools), again, kept_of(first.ended[:2]))
    assert [rollout.key.attempt for rollout in rollouts(done)] == [1] * GROUP
    assert len(again.ended) == 2 + GROUP
