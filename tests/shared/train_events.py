"""Events as a trainer writes them: whole logs of scripted runs."""

from collections.abc import Iterator, Sequence

from rft.core.attempt import Attempt
from rft.core.estimates import RewardEstimate
from rft.core.events import (
    AttemptsMade,
    EventLine,
    HoldBegan,
    HoldEnded,
    Notice,
    PolicyMeasured,
    RolloutBegan,
    RolloutDone,
    RolloutsBegan,
    RunEnded,
    RunStarted,
    StepDone,
    TrainEvent,
)
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.core.messages import Message, Role
from rft.core.rollout import RolloutKey, Split, StopReason
from rft.core.step_record import CheckpointInfo, GraderStats, Optimization, RolloutStats, Timing, ToolStats
from rft.platform.worker.log_line import LogLine, read_line
from rft.testing.trace_ids import trace_id_at

START = 1_790_000_000.0
TRAINED_TOKENS = 100
"""Per step."""
ENDPOINT_DOWN = RunEnded(
    outcome="failed",
    best_step=None,
    error_code="endpoint_down",
    error_message="tool 'search' did not answer for an hour",
)


def rollout_done(
    job_id: str, step: int, index: int, *, split: Split = Split.TRAIN, failed: bool = False
) -> RolloutDone:
    """One rollout; its reward tells step and index."""
    key = RolloutKey(job_id=job_id, job_seed=1, split=split, step=step, epoch=0, row_index=index // 2, index=index % 2)
    failure = Failure(stage=Stage.TOOL, code=FailureCode.TIMEOUT, message="search did not answer", endpoint="search")
    return RolloutDone(
        key=key,
        trace_id=trace_id_at(key),
        policy_version=step,
        outcome=failure if failed else Grade(reward=step + index / 100, scores={"judge": 0.5}, grader="judge"),
        stop_reason=None if failed else StopReason.COMPLETED,
        messages=(
            Message(role=Role.USER, content="How much?"),
            Message(role=Role.ASSISTANT, content=f"NUL \x00 and a backslash \\u0000 at step {step}"),
        ),
        tool_calls={"search": 2, "cat": 1},
        tool_errors={},
        completion_tokens=40,
        turns=2,
        duration_s=1.5,
        sampling_s=1.0,
        tools_s=0.4,
        grading_s=0.1,
    )


def began(*rollouts: RolloutDone) -> RolloutsBegan:
    """What was told before the first call of those conversations."""
    return RolloutsBegan(
        rollouts=tuple(RolloutBegan(done.key, done.trace_id, done.policy_version) for done in rollouts)
    )


def begun_anew(done: RolloutDone, conversation: int) -> RolloutDone:
    """The same place of the run in a later conversation, with an id of its own."""
    return done.model_copy(update={"trace_id": trace_id_at(done.key, conversation=conversation)})


def hold_began(step: int) -> HoldBegan:
    """The tool is down."""
    reason = "tool 'search' answered none of the last 8 calls; it is probed until it answers"
    return HoldBegan(step=step, endpoint="tool 'search'", stage=Stage.TOOL, reason=reason)


def hold_ended(step: int) -> HoldEnded:
    """The tool is back."""
    return HoldEnded(step=step, endpoint="tool 'search'", held_s=12.4)


def attempts_made(step: int, trace_id: str, *codes: FailureCode | None, stage: Stage = Stage.TOOL) -> AttemptsMade:
    """One call's tries, the n-th taking n times 10 ms; a code of None is a usable reply."""
    return AttemptsMade(
        step=step,
        attempts=tuple(
            Attempt(
                at=START + number,
                trace_id=trace_id,
                stage=stage,
                endpoint="search" if stage is Stage.TOOL else "judge",
                call_id="call_1",
                attempt=number,
                code=code,
                status=200 if code is None else 503 if code is FailureCode.SERVER_ERROR else None,
                latency_s=number / 100,
                queued_s=number / 1000,
                sent_bytes=300,
                received_bytes=0 if code else 40,
            )
            for number, code in enumerate(codes, start=1)
        ),
    )


def stats(reward: float, *, rollouts: int = 4, excluded: int = 1) -> RolloutStats:
    """One split of one step."""
    return RolloutStats(
        rollouts=rollouts,
        graded=rollouts - excluded,
        excluded=excluded,
        excluded_share=excluded / rollouts,
        failures_by_code={"timeout": excluded},
        replaced=0,
        reward_mean=reward,
        reward_std=0.1,
        reward_mean_if_failures_were_zero=reward * 0.75,
        grader_scores_mean={"judge": reward},
        groups=2,
        zero_variance_groups=0,
        too_small_groups=1,
        completion_tokens_mean=40.0,
        completion_tokens_total=160,
        turns_mean=2.0,
        tool_calls_mean=3.0,
        stop_reasons={"completed": 2, "max_turns": 1},
        rollout_latency_p50_s=1.4,
        rollout_latency_p95_s=1.6,
        grader_latency_mean_s=0.1,
        tools=(
            ToolStats(
                name="search",
                calls=8,
                calls_per_rollout_mean=2.0,
                output_tokens_mean=12.5,
                execution_latency_mean_s=0.2,
                errors_by_code={"timeout": 1, "bad_arguments": 2},
                client_errors_by_status={"422": 2},
            ),
        ),
        failures_by_stage={"tool": excluded},
        reward_estimate=RewardEstimate(mean=reward, low=max(0.0, reward - 0.2), high=min(1.0, reward + 0.1), rows=2),
        graders=(GraderStats(name="judge", gradings=rollouts - excluded, latency_mean_s=0.1, errors_by_code={}),),
    )


def step_done(step: int, total_steps: int, *, evaluated: bool = True, kept: tuple[int, ...] | None = None) -> StepDone:
    """One finished step; step 0 is the baseline."""
    return StepDone(
        step=step,
        total_steps=total_steps,
        epoch=0,
        train=None if step == 0 else stats(0.4 + step / 100),
        valid=stats(0.6 + step / 100, excluded=0) if evaluated else None,
        timing=Timing(sampling_s=1.0, tools_s=0.5, grading_s=0.25, training_s=2.0, eval_s=0.25, full_step_s=4.0),
        optimization=None
        if step == 0
        else Optimization(
            loss=0.01,
            grad_norm=0.5,
            entropy=1.2,
            learning_rate=2e-3,
            trained_rollouts=3,
            trained_tokens=TRAINED_TOKENS,
            sampling_logp_difference=0.001,
        ),
        checkpoint=CheckpointInfo(
            path=f"checkpoints/checkpoint-{step}",
            kept_steps=tuple(range(step, max(-1, step - 3), -1)) if kept is None else kept,
        ),
    )


def conversed_step(
    job_id: str, step: int, total_steps: int, *, rollouts: int, conversation: int = 0
) -> Iterator[TrainEvent]:
    """As `one_step`, each conversation's beginning told before any of them ends."""
    events = [
        begun_anew(event, conversation) if isinstance(event, RolloutDone) else event
        for event in one_step(job_id, step, total_steps, rollouts=rollouts)
    ]
    yield began(*(event for event in events if isinstance(event, RolloutDone)))
    yield from events


def one_step(job_id: str, step: int, total_steps: int, *, rollouts: int) -> Iterator[TrainEvent]:
    """What a trainer writes during one step; the last rollout fails."""
    for index in range(rollouts):
        yield rollout_done(job_id, step, index, failed=index == rollouts - 1)
    yield rollout_done(job_id, step, 0, split=Split.VALID)
    yield step_done(step, total_steps)


def measurement(job_id: str, step: int, *rewards: float) -> Iterator[TrainEvent]:
    """The policy of a step, measured where nothing is chosen: a rollout per row."""
    for row, reward in enumerate(rewards):
        yield rewarded(rollout_done(job_id, step, 2 * row, split=Split.TEST), reward)
    yield PolicyMeasured(step=step, stats=stats(0.5, rollouts=len(rewards), excluded=0))


def rewarded(done: RolloutDone, reward: float) -> RolloutDone:
    """The rollout with another reward."""
    return done.model_copy(update={"outcome": Grade(reward=reward, scores={"judge": reward}, grader="judge")})


def whole_run(job_id: str, *, steps: int, rollouts: int = 3) -> list[TrainEvent]:
    """An undisturbed run, baseline included."""
    events: list[TrainEvent] = [RunStarted(resumed_from_step=None, total_steps=steps, pid=1)]
    for step in range(steps + 1):
        events.extend(one_step(job_id, step, steps, rollouts=rollouts))
    events.append(Notice(level="warn", message="the last\x00notice", code="no_signal", data={"groups": 3}))
    events.append(RunEnded(outcome="succeeded", best_step=steps))
    return events


def logged(events: Sequence[TrainEvent], *, after: int = 0) -> list[LogLine]:
    """The events as the worker reads them out of the log."""
    return [read_line(line.model_dump_json().encode() + b"\n") for line in numbered(events, after=after)]


def numbered(events: Sequence[TrainEvent], *, after: int = 0) -> list[EventLine]:
    """The events as lines of a log."""
    return [EventLine(seq=seq, at=START + seq, event=event) for seq, event in enumerate(events, start=after + 1)]
