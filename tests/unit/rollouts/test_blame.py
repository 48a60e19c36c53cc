"""How a rollout fails: each failure is attributed once, and none has a reward."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from rft.chat.hermes import HermesChatFormat
from rft.core.dataset import DatasetRow
from rft.core.errors import SamplerError
from rft.core.failure import Failure, FailureCode, Fault, Stage
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.messages import ToolCall, ToolResult
from rft.core.rollout import Rollout, RolloutKey, StopReason
from rft.core.spec import Budgets
from rft.rollouts.loop import run_rollout
from rft.rollouts.sampler import FinishReason, Sample, SampleRequest, check_sample
from rft.rollouts.setup import RolloutSetup
from rft.testing.samplers import FakeSampler, ScriptedSampler, tool_call_text
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_time import run_in_virtual_time

MakeSetup = Callable[..., RolloutSetup]
SEARCH = tool_call_text("search", '{"q": 1}')
HOUR_S = 3600.0


def run(row: DatasetRow, key: RolloutKey, setup: RolloutSetup) -> tuple[Rollout, Failure]:
    rollout = run_in_virtual_time(run_rollout(row, key, setup))
    assert isinstance(rollout.outcome, Failure)
    assert rollout.reward is None
    return rollout, rollout.outcome


def failure(code: FailureCode, stage: Stage = Stage.TOOL) -> Failure:
    return Failure(stage=stage, code=code, message="down", endpoint="search", status=503, attempts=4, elapsed_s=9.0)


async def score_one(trace: FinishedTrace, trace_id: str) -> float:
    return 1.0


def say_done(request: SampleRequest, prompt: str) -> str:
    return "done"


ENDPOINT_CODES = [code for code in FailureCode if failure(code).fault is Fault.ENDPOINT]


@pytest.mark.parametrize("code", ENDPOINT_CODES)
def test_a_tool_failure_ends_the_rollout_as_it_was_told(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, code: FailureCode
) -> None:
    async def down(call: ToolCall, trace_id: str) -> Failure:
        return failure(code)

    grader = FunctionGrader(score_one)
    rollout, outcome = run(row, key, make_setup([SEARCH, "never"], tools=FunctionTools(down), grader=grader))
    assert outcome == failure(code)
    assert rollout.stop_reason is None
    assert grader.graded == []
    assert (len(rollout.trace.turns), rollout.trace.turns[0].results) == (1, ())


@pytest.mark.parametrize("code", ENDPOINT_CODES)
def test_a_grader_failure_keeps_the_stop_reason(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, code: FailureCode
) -> None:
    async def down(trace: FinishedTrace, trace_id: str) -> Failure:
        return failure(code, Stage.GRADER)

    rollout, outcome = run(row, key, make_setup(["done"], grader=FunctionGrader(down)))
    assert outcome == failure(code, Stage.GRADER)
    assert rollout.stop_reason is StopReason.COMPLETED


def test_a_tool_failure_cancels_the_other_calls_of_the_turn(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    cancelled: list[str] = []

    async def one_is_down(call: ToolCall, trace_id: str) -> str | Failure:
        if call.name == "down":
            await asyncio.sleep(1)
            return failure(FailureCode.SERVER_ERROR)
        try:
            await asyncio.sleep(HOUR_S / 2)
        except asyncio.CancelledError:
            cancelled.append(call.name)
            raise
        return "too late"

    turn = SEARCH + tool_call_text("down", "{}") + SEARCH
    rollout, outcome = run(row, key, make_setup([turn], tools=FunctionTools(one_is_down)))
    assert outcome.code is FailureCode.SERVER_ERROR
    assert cancelled == ["search", "search"]
    assert rollout.duration_s == pytest.approx(1.0)


def test_deadline_while_a_tool_holds_the_rollout(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    async def one_hangs(call: ToolCall, trace_id: str) -> str:
        await asyncio.sleep(HOUR_S if call.name == "cat" else 1)
        return "here"

    turn = SEARCH + tool_call_text("cat", "{}")
    setup = make_setup([turn], tools=FunctionTools(one_hangs), budgets=Budgets(deadline_s=60))
    rollout, outcome = run(row, key, setup)
    assert (outcome.stage, outcome.code, outcome.endpoint) == (Stage.TOOL, FailureCode.DEADLINE_EXCEEDED, "cat")
    assert outcome.fault is Fault.ENDPOINT
    assert outcome.elapsed_s == pytest.approx(60)
    assert rollout.duration_s == pytest.approx(60)
    assert rollout.tools_s == pytest.approx(60)
    assert rollout.stop_reason is None


def test_deadline_while_the_grader_holds_the_rollout(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    async def hang(trace: FinishedTrace, trace_id: str) -> float:
        await asyncio.sleep(HOUR_S)
        return 1.0

    setup = make_setup(["done"], grader=FunctionGrader(hang), budgets=Budgets(deadline_s=60))
    rollout, outcome = run(row, key, setup)
    assert (outcome.stage, outcome.code, outcome.endpoint) == (Stage.GRADER, FailureCode.DEADLINE_EXCEEDED, "grader")
    assert rollout.stop_reason is StopReason.COMPLETED


async def hang_for_an_hour(trace: FinishedTrace, trace_id: str) -> float:
    await asyncio.sleep(HOUR_S)
    return 1.0


class HangsOverMisfits(FunctionGrader):
    """Its endpoint hangs also when it is told of an answer that does not fit."""

    def standing_grade(self, trace: FinishedTrace) -> Grade | None:
        is_misfit = trace.messages[-1].content != "fits"
        return Grade(reward=-1.0, grader="grader", is_invalid=True, error_details="no JSON") if is_misfit else None


def test_the_grade_of_a_misfit_stands_when_the_deadline_passes_over_its_grader(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    setup = make_setup(["done"], grader=HangsOverMisfits(hang_for_an_hour), budgets=Budgets(deadline_s=2))
    rollout = run_in_virtual_time(run_rollout(row, key, setup))
    assert isinstance(rollout.outcome, Grade)
    assert (rollout.reward, rollout.outcome.is_invalid) == (-1.0, True)
    assert rollout.outcome.error_details == (
        "no JSON\nThe rollout's deadline of 2 s ran out while grader 'grader' held it."
    )
    _, outcome = run(row, key, replace(setup, sampler=make_setup(["fits"]).sampler))
    assert outcome.code is FailureCode.DEADLINE_EXCEEDED


def test_deadline_while_the_sampler_holds_the_rollout(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, chat_format: HermesChatFormat
) -> None:
    stuck = ScriptedSampler(chat_format.tokenizer, say_done, latency=lambda _: HOUR_S)
    _, outcome = run(row, key, make_setup(stuck, budgets=Budgets(deadline_s=60)))
    assert (outcome.stage, outcome.code, outcome.endpoint) == (Stage.SAMPLER, FailureCode.PLATFORM_DEADLINE, None)
    assert outcome.fault is Fault.PLATFORM


class Flaky(ScriptedSampler):
    """Fails the first `failures` samples."""

    def __init__(self, chat_format: HermesChatFormat, failures: int) -> None:
        super().__init__(chat_format.tokenizer, say_done)
        self.failures = failures
        self.requests: list[SampleRequest] = []

    async def sample(self, request: SampleRequest) -> Sample:
        self.requests.append(request)
        if len(self.requests) <= self.failures:
            raise SamplerError("engine died")
        return await super().sample(request)


def test_a_sampler_error_is_retried_once(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, chat_format: HermesChatFormat
) -> None:
    flaky = Flaky(chat_format, failures=1)
    rollout = run_in_virtual_time(run_rollout(row, key, make_setup(flaky)))
    assert rollout.reward == 1.0
    first, second = flaky.requests
    assert first.request_id != second.request_id
    assert (first.seed, first.prompt_ids) == (second.seed, second.prompt_ids)


def test_a_second_sampler_error_ends_the_rollout(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, chat_format: HermesChatFormat
) -> None:
    flaky = Flaky(chat_format, failures=2)
    _, outcome = run(row, key, make_setup(flaky))
    assert (outcome.stage, outcome.code, outcome.attempts) == (Stage.SAMPLER, FailureCode.SAMPLER_ERROR, 2)
    assert "engine died" in outcome.message
    assert len(flaky.requests) == 2


@pytest.mark.parametrize("where", ["tool", "grader", "sampler", "chat_format"])
def test_an_exception_of_ours_is_the_platforms_and_is_logged(
    row: DatasetRow,
    key: RolloutKey,
    make_setup: MakeSetup,
    chat_format: HermesChatFormat,
    caplog: pytest.LogCaptureFixture,
    where: str,
) -> None:
    async def bug(*_: object) -> float:
        raise KeyError("oops")

    async def tool_bug(call: ToolCall, trace_id: str) -> str:
        if call.name == "down":
            await asyncio.sleep(0)
        raise KeyError("oops")

    def script_bug(*_: object) -> str:
        raise KeyError("oops")

    class Broken(HermesChatFormat):
        def suffix_ids(self, results: object, turn_end: int | None = None) -> list[int]:
            raise KeyError("oops")

    setups = {
        "tool": lambda: make_setup([SEARCH], tools=FunctionTools(tool_bug)),
        "grader": lambda: make_setup(["done"], grader=FunctionGrader(bug)),
        "sampler": lambda: make_setup(ScriptedSampler(chat_format.tokenizer, script_bug)),
        "chat_format": lambda: replace(make_setup([SEARCH]), chat_format=Broken(chat_format.tokenizer)),
    }
    with caplog.at_level(logging.ERROR):
        rollout, outcome = run(row, key, setups[where]())
    assert (outcome.stage, outcome.code) == (Stage.PLATFORM, FailureCode.INTERNAL_ERROR)
    assert "KeyError" in outcome.message
    assert any(record.exc_info for record in caplog.records)
    assert rollout.trace_id in caplog.text


def test_a_bug_never_hides_behind_a_failure_of_the_same_turn(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    async def both_at_once(call: ToolCall, trace_id: str) -> Failure:
        if call.name == "down":
            return failure(FailureCode.SERVER_ERROR)
        raise KeyError("oops")

    setup = make_setup([tool_call_text("down", "{}") + SEARCH], tools=FunctionTools(both_at_once))
    _, outcome = run(row, key, setup)
    assert outcome.code is FailureCode.INTERNAL_ERROR


def test_a_result_without_output_or_failure_is_our_bug(row: DatasetRow, key: RolloutKey, make_setup: MakeSetup) -> None:
    async def nothing(call: ToolCall, trace_id: str) -> ToolResult:
        return ToolResult(call_id=call.call_id, name=call.name, output=None)

    _, outcome = run(row, key, make_setup([SEARCH], tools=FunctionTools(nothing)))
    assert outcome.code is FailureCode.INTERNAL_ERROR


def test_a_time_out_inside_a_gateway_is_not_taken_for_the_deadline(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    async def leak(call: ToolCall, trace_id: str) -> str:
        raise TimeoutError

    _, outcome = run(row, key, make_setup([SEARCH], tools=FunctionTools(leak)))
    assert outcome.code is FailureCode.INTERNAL_ERROR


def test_cancelling_a_rollout_cancels_and_gives_no_rollout(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup
) -> None:
    async def hang(call: ToolCall, trace_id: str) -> str:
        await asyncio.sleep(HOUR_S / 2)
        return "late"

    async def main() -> None:
        task = asyncio.create_task(run_rollout(row, key, make_setup([SEARCH], tools=FunctionTools(hang))))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_in_virtual_time(main())


REQUEST = SampleRequest(request_id="r", prompt_ids=(1,), max_tokens=2, stop_token_ids=(9,), seed=0)


@pytest.mark.parametrize(
    ("sample", "complaint"),
    [
        (Sample((), (), FinishReason.LENGTH), "0 tokens"),
        (Sample((1, 2, 9), (0.0, 0.0, 0.0), FinishReason.STOP), "3 tokens"),
        (Sample((1, 9), (-1.0,), FinishReason.STOP), "1 log-probabilities"),
        (Sample((1, 9), (-1.0, float("nan")), FinishReason.STOP), "not a finite number"),
        (Sample((1, 9), (-1.0, float("-inf")), FinishReason.STOP), "not a finite number"),
        (Sample((1, 9), (-1.0, 0.5), FinishReason.STOP), "not a finite number"),
        (Sample((1, 2), (-1.0, -1.0), FinishReason.STOP), "without a stop token"),
    ],
)
def test_nonsense_from_an_engine_is_a_sampler_error(sample: Sample, complaint: str) -> None:
    with pytest.raises(SamplerError, match=complaint):
        check_sample(sample, REQUEST)


def test_an_engine_that_lies_about_lengths_is_blamed(
    row: DatasetRow, key: RolloutKey, make_setup: MakeSetup, chat_format: HermesChatFormat
) -> None:
    class Lying(FakeSampler):
        async def sample(self, request: SampleRequest) -> Sample:
            sample = await super().sample(request)
            return Sample(sample.token_ids, sample.logprobs[:-1], sample.finish_reason)

    _, outcome = run(row, key, make_setup(Lying(vocabulary=[50], stop_token_id=chat_format.stop_token_ids[0])))
    assert outcome.code is FailureCode.SAMPLER_ERROR
