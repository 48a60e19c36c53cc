"""A tool that is not there: 404 without an `output` to nearly every call holds the round, and no grade ends that."""

from collections import Counter
from dataclasses import dataclass

import pytest

from rft.core.dataset import DatasetRow
from rft.core.errors import SamplerError
from rft.core.events import HoldBegan
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.messages import ToolCall, ToolResult
from rft.core.spec import HoldRule
from rft.core.turns import Turn
from rft.rollouts.hold import HoldExpired
from rft.rollouts.missing_tools import RecentRollouts, missing_tools
from rft.rollouts.stats import rollout_stats
from rft.testing.samplers import ScriptedSampler, tool_call_text
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock
from rft.testing.samplers_tokenizer import ByteTokenizer
from tests.unit.rollouts.conftest import MakeSetup
from tests.unit.rollouts.test_trials import Book, DownUntil, outcomes, step

SEARCH = tool_call_text("search", '{"q": 1}')
WRITE = tool_call_text("write", '{"q": 1}')
TURNS = [SEARCH, "The answer is 4."]


def not_found(call: ToolCall, status: int = 404) -> ToolResult:
    message = f"tool {call.name!r} at http://a/serch answered {status} Not Found"
    failure = Failure(
        stage=Stage.TOOL, code=FailureCode.ENDPOINT_NOT_FOUND, message=message, endpoint=call.name, status=status
    )
    return ToolResult(
        call_id=call.call_id, name=call.name, output=f"Error: HTTP {status}", is_model_error=True,
        error_code=f"http_{status}", status=status, suspected_failure=failure, attempts=1,
    )  # fmt: skip


def answered(call: ToolCall, status: int = 200) -> ToolResult:
    is_error = status >= 400
    return ToolResult(
        call_id=call.call_id, name=call.name, output="here", is_model_error=is_error,
        error_code=f"http_{status}" if is_error else None, status=status, attempts=1,
    )  # fmt: skip


@dataclass(frozen=True)
class MessageRolloutLike:
    """All that is looked at of a rollout."""

    turns: tuple[Turn, ...]
    outcome: Grade | Failure | None = None


class MissingUntil(FunctionTools):
    """Nothing is behind the URL until that moment; of every `one_in` calls one is answered all the same."""

    def __init__(self, there_s: float, *, one_in: int = 10**9, status: int = 404, then: int = 200) -> None:
        async def answer(call: ToolCall, trace_id: str) -> ToolResult:
            is_there = virtual_clock() >= there_s or len(self.calls) % one_in == 0
            return answered(call, then) if is_there else not_found(call, status)

        super().__init__(answer)


@pytest.mark.parametrize("status", [404, 405, 410])
def test_a_round_that_met_no_tool_is_held_until_the_tool_answers(
    rows: list[DatasetRow], make_setup: MakeSetup, status: int
) -> None:
    book, tools = Book(), MissingUntil(20.0, status=status)
    done = step(rows, make_setup(TURNS, tools=tools, hold=book.hold()), book)
    assert outcomes(done) == [1.0] * 16
    assert book.kinds == [(0.0, "hold_began"), (30.0, "hold_ended")]
    began = book.told[0][1]
    assert isinstance(began, HoldBegan)
    assert (began.endpoint, began.stage) == ("tool 'search'", Stage.TOOL)
    assert "http://a/serch answered" in began.reason
    assert f"16 of 16 calls were answered {status} without an `output`: check its URL" in began.reason
    calls = [result.status for group in done.groups for one in group.rollouts for result in one.trace.turns[0].results]
    assert calls == [200] * 16, "nothing that a missing tool answered is left in the round"
    assert all(isinstance(one.outcome, Failure) for one in done.replaced)
    last_told = {one.trace_id: one for _, one in book.ended}
    missed = [one for one in last_told.values() if isinstance(one.outcome, Failure)]
    assert len(missed) == 16 + 3, "told again as failed, those of the trials, too"
    assert {one.outcome.code for one in missed if isinstance(one.outcome, Failure)} == {FailureCode.ENDPOINT_NOT_FOUND}
    stats = rollout_stats(done.groups, done.replaced)
    assert (stats.graded, stats.excluded, stats.reward_mean) == (16, 19, 1.0)
    assert stats.failures_by_code == {"endpoint_not_found": 19}


@pytest.mark.parametrize("then", [400, 404, 422])
def test_another_answer_ends_the_hold_whatever_it_says(
    rows: list[DatasetRow], make_setup: MakeSetup, then: int
) -> None:
    """Of a tool that is there, a 4xx is the model's affair: with an `output` even a 404."""
    book = Book()
    done = step(rows, make_setup(TURNS, tools=MissingUntil(20.0, then=then), hold=book.hold()), book)
    assert book.kinds == [(0.0, "hold_began"), (30.0, "hold_ended")]
    assert outcomes(done) == [1.0] * 16


@pytest.mark.parametrize("then", [400, 404, 422])
def test_what_a_tool_that_is_there_refuses_holds_nothing(
    rows: list[DatasetRow], make_setup: MakeSetup, then: int
) -> None:
    book = Book()
    done = step(rows, make_setup(TURNS, tools=MissingUntil(0.0, then=then), hold=book.hold()), book)
    assert (outcomes(done), book.kinds, done.replaced) == ([1.0] * 16, [], [])


@pytest.mark.parametrize(("one_in", "is_held"), [(8, False), (16, True)])
def test_nearly_all_means_more_than_nine_in_ten(
    rows: list[DatasetRow], make_setup: MakeSetup, one_in: int, is_held: bool
) -> None:
    book = Book()
    step(rows, make_setup(TURNS, tools=MissingUntil(1.0, one_in=one_in), hold=book.hold()), book)
    assert bool(book.kinds) is is_held


def test_a_trial_that_does_not_call_the_tool_does_not_end_the_hold(
    rows: list[DatasetRow], make_setup: MakeSetup
) -> None:
    """Its grade says nothing about the tool; it is a good rollout all the same, and keeps its slot."""
    book, calls = Book(), MissingUntil(20.0)
    setup = make_setup(TURNS, tools=calls, hold=book.hold())
    sampler = setup.sampler
    assert hasattr(sampler, "_script")

    def script(request: object, prompt: str) -> str:
        turn = prompt.count("<|im_start|>assistant\n") - 1
        return "No need to search." if turn == 0 and 0.0 < virtual_clock() < 10.0 else TURNS[turn]

    sampler._script = script  # pyright: ignore[reportAttributeAccessIssue]
    done = step(rows, setup, book)
    assert [kind for _, kind in book.kinds] == ["hold_began", "hold_ended"]
    assert book.kinds[-1][0] == 30.0
    assert len([one for group in done.groups for one in group.rollouts if len(one.trace.turns) == 1]) == 2


def test_a_hold_for_a_missing_tool_expires_without_a_grade(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    book = Book()
    rule = HoldRule(max_s=100.0)
    with pytest.raises(HoldExpired, match="answered 404 without an `output`: check its URL"):
        step(rows, make_setup(TURNS, tools=MissingUntil(1e9), hold=book.hold(rule)), book)
    last_told = {one.trace_id: one for _, one in book.ended}
    assert not [one for one in last_told.values() if isinstance(one.outcome, Grade)]


def test_only_what_met_the_missing_tool_is_rolled_out_again(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    """Three rollouts of sixteen wrote, and that tool is not there; the others keep their grades."""
    book = Book()

    async def answer(call: ToolCall, trace_id: str) -> ToolResult:
        return not_found(call) if call.name == "write" and virtual_clock() < 5.0 else answered(call)

    tools = FunctionTools(answer)
    setup = make_setup(TURNS, tools=tools, hold=book.hold())
    begun = 0

    def script(request: object, prompt: str) -> str:
        nonlocal begun
        turn = prompt.count("<|im_start|>assistant\n") - 1
        begun += turn == 0
        return WRITE if turn == 0 and (begun in (2, 5, 9) or begun > 16) else TURNS[turn]

    setup.sampler._script = script  # pyright: ignore[reportAttributeAccessIssue]
    done = step(rows, setup, book)
    assert [kind for _, kind in book.kinds] == ["hold_began", "hold_ended"]
    assert outcomes(done) == [1.0] * 16
    kept = [one for group in done.groups for one in group.rollouts if one.key.attempt == 0]
    assert len(kept) == 13


@pytest.mark.parametrize("code", [FailureCode.GRADER_ERROR, FailureCode.SERVER_ERROR])
@pytest.mark.parametrize("ungraded", [0, 2])
def test_a_missing_tool_that_only_rollouts_lost_by_the_platform_met_ends_no_step(
    rows: list[DatasetRow], make_setup: MakeSetup, ungraded: int, code: FailureCode
) -> None:
    """Three of sixteen: none of them has a grade that could be wrong. Nor are two that nobody can grade too many."""
    graded: list[str] = []
    begun = 0

    async def answer(call: ToolCall, trace_id: str) -> ToolResult:
        return not_found(call)

    def script(request: object, prompt: str) -> str:
        nonlocal begun
        if "<tool_response>" in prompt:
            raise SamplerError("boom")
        begun += 1
        return WRITE if begun in (2, 5, 9) else TURNS[1]

    async def score(trace: FinishedTrace, trace_id: str) -> float | Failure:
        graded.append(trace_id)
        broken = Failure(stage=Stage.GRADER, code=code, message="it broke", endpoint="grader")
        return broken if len(graded) <= ungraded else 1.0

    book = Book()
    sampler = ScriptedSampler(ByteTokenizer(), script)
    setup = make_setup(sampler, tools=FunctionTools(answer), grader=FunctionGrader(score), hold=book.hold())
    done = step(rows, setup, book)
    failures = Counter(one.outcome.code for _, one in book.ended if isinstance(one.outcome, Failure))
    assert failures == Counter({FailureCode.SAMPLER_ERROR: 3, code: ungraded})
    assert outcomes(done).count(1.0) == 13 - ungraded
    assert book.kinds == []


def test_what_few_rollouts_met_may_be_chance(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    book = Book()
    done = step(rows, make_setup(TURNS, tools=MissingUntil(1e9), hold=None), book)
    rollouts = [one for group in done.groups for one in group.rollouts]
    assert not missing_tools(rollouts[:2], bearable=4.0)
    assert list(missing_tools(rollouts[:3], bearable=4.0)) == ["search"]
    assert list(missing_tools(rollouts[:1], bearable=0.5)) == ["search"], "it is the whole round"
    assert not missing_tools([], bearable=0.0)


@pytest.mark.parametrize("share", [2, 1])
def test_a_round_half_of_which_was_not_let_in_is_held(
    rows: list[DatasetRow], make_setup: MakeSetup, share: int
) -> None:
    """A token that expires in the middle of a step: not one rollout of it is used as it came out."""
    book = Book()
    tools = DownUntil(0.0, FailureCode.UNAUTHORIZED, lambda number: number <= 16 // share and virtual_clock() < 9.0)
    done = step(rows, make_setup(TURNS, tools=tools, hold=book.hold()), book, replacement_share=0.5)
    assert [kind for _, kind in book.kinds] == ["hold_began", "hold_ended"]
    assert outcomes(done) == [1.0] * 16
    assert len([one for _, one in book.ended if one.reward is None]) == len(done.replaced)


def test_who_was_not_let_in_is_not_tried_at_once_again(rows: list[DatasetRow], make_setup: MakeSetup) -> None:
    tools = DownUntil(0.0, FailureCode.UNAUTHORIZED, lambda number: number <= 2)
    done = run_in_virtual_time(
        Book().round(rows, make_setup(TURNS, tools=tools, hold=Book().hold()), replacement_share=0.5)
    )
    assert len(tools.calls) == 16
    assert outcomes(done).count(None) == 2


def met(result: ToolResult) -> MessageRolloutLike:
    turn = Turn(
        content="", raw_text="", tool_calls=(), results=(result,), completion_tokens=0, sampling_s=0.0, tools_s=0.0
    )
    return MessageRolloutLike((turn,))


CALL = ToolCall(call_id="c", name="search", arguments="{}")


def test_without_rounds_three_rollouts_tell_that_a_tool_is_missing() -> None:
    recent = RecentRollouts()
    assert [bool(recent.add(met(not_found(CALL)))) for _ in range(3)] == [False, False, True]


def test_a_tool_that_answers_others_is_there() -> None:
    recent = RecentRollouts()
    told = [recent.add(met(answered(CALL) if number % 5 == 0 else not_found(CALL))) for number in range(50)]
    assert not any(told)
    assert recent.at_end() == {}


def test_a_tool_that_goes_missing_some_day_is_noticed() -> None:
    recent = RecentRollouts()
    for _ in range(500):
        assert recent.add(met(answered(CALL))) == {}
    assert any(recent.add(met(not_found(CALL))) for _ in range(64))


def test_what_was_answered_in_another_process_counts_too() -> None:
    recent = RecentRollouts()
    for _ in range(64):
        recent.add_earlier(["search"])
    assert not any(recent.add(met(not_found(CALL))) for _ in range(3))
    assert recent.at_end() == {}
    assert any(recent.add(met(not_found(CALL))) for _ in range(64)), "from some day on it may be missing all the same"


def test_at_the_end_of_few_rollouts_few_are_enough() -> None:
    recent = RecentRollouts()
    assert recent.add(met(not_found(CALL))) == {}
    assert "check its URL" in recent.at_end()["search"].message
    many = RecentRollouts()
    many.add(met(not_found(CALL)))
    for _ in range(12):
        many.add(MessageRolloutLike(()))
    assert many.at_end() == {}, "one rollout of many called it, and may have been mistaken"
