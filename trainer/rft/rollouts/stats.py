"""What a step's rollouts did, in numbers. Pure. A mean over nothing is None, never 0."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, fsum, sqrt

from rft.core.estimates import estimate_reward
from rft.core.events import RolloutDone
from rft.core.failure import Failure, Stage
from rft.core.grade import Grade, PartOutcome, TokenUsage, total_usage
from rft.core.group import Group
from rft.core.messages import CallMistake, ToolCall, ToolResult
from rft.core.rollout import Rollout
from rft.core.step_record import GraderStats, RolloutStats, ToolStats


def rollout_stats(groups: Sequence[Group], replaced: Sequence[Rollout] = ()) -> RolloutStats:
    """One split of one step.

    `replaced` are failed rollouts whose slot in a group another attempt took: they count as rollouts and as excluded.
    Rewards and all means per rollout are over graded rollouts, because a rollout that broke off says nothing about
    the policy; total tokens, tool calls and their latencies and errors are over all. What excluded ones came to, up to
    where they were cut, is told beside it: who only finishes short conversations would train on short ones. A group
    of one rollout (an evaluation with one sample) is neither too small nor without variance: nothing is trained on it.
    """
    rollouts = [*(rollout for group in groups for rollout in group.rollouts), *replaced]
    excluded = [rollout for rollout in rollouts if isinstance(rollout.outcome, Failure)]
    failures = [rollout.outcome for rollout in excluded if isinstance(rollout.outcome, Failure)]
    graded = [(rollout, rollout.outcome) for rollout in rollouts if isinstance(rollout.outcome, Grade)]
    rewards = [grade.reward for _, grade in graded]
    durations = [rollout.duration_s for rollout, _ in graded]
    trained_on = [group for group in groups if len(group.rollouts) > 1]
    too_small = sum(_graded_count(group) < 2 for group in trained_on)
    return RolloutStats(
        rollouts=len(rollouts),
        graded=len(graded),
        excluded=len(failures),
        excluded_share=len(failures) / len(rollouts) if rollouts else 0.0,
        failures_by_code=Counter(failure.code.value for failure in failures),
        replaced=len(replaced),
        reward_mean=mean(rewards),
        reward_std=std(rewards),
        reward_mean_if_failures_were_zero=fsum(rewards) / len(rollouts) if rollouts else None,
        grader_scores_mean=_scores_mean(grade for _, grade in graded),
        groups=len(groups),
        zero_variance_groups=sum(not _has_signal(group) for group in trained_on) - too_small,
        too_small_groups=too_small,
        completion_tokens_mean=mean([rollout.trace.sampled_tokens for rollout, _ in graded]),
        completion_tokens_total=sum(rollout.sampled_tokens for rollout in rollouts),
        turns_mean=mean([len(rollout.trace.turns) for rollout, _ in graded]),
        tool_calls_mean=mean([_calls_count(rollout) for rollout, _ in graded]),
        stop_reasons=Counter(rollout.stop_reason.value for rollout, _ in graded if rollout.stop_reason is not None),
        rollout_latency_p50_s=percentile(durations, 0.50),
        rollout_latency_p95_s=percentile(durations, 0.95),
        grader_latency_mean_s=mean([grade.latency_s for _, grade in graded]),
        tools=_tool_stats(rollouts),
        judge_usage=total_usage(rollout.outcome.usage for rollout in rollouts),
        model_errors=Counter(error for _, grade in graded for error in grade.model_errors),
        failures_by_stage=Counter(failure.stage.value for failure in failures),
        graders=_grader_stats(rollout.outcome for rollout in rollouts),
        excluded_completion_tokens_mean=mean([rollout.sampled_tokens for rollout in excluded]),
        excluded_turns_mean=mean([len(rollout.trace.turns) for rollout in excluded]),
        excluded_tool_calls_mean=mean([_calls_count(rollout) for rollout in excluded]),
        reasoning_tokens_mean=mean([rollout.trace.reasoning_tokens for rollout, _ in graded]),
        reasoning_tokens_total=sum(rollout.trace.reasoning_tokens for rollout in rollouts),
        reward_estimate=estimate_reward([graded_rewards(group) for group in groups]),
    )


def graded_rewards(group: Group) -> list[float]:
    """Without the rollouts that have none."""
    return [reward for reward in group.rewards_G if reward is not None]


def _calls_count(rollout: Rollout) -> int:
    return sum(1 for _ in made_calls(rollout))


def to_rollout_done(rollout: Rollout) -> RolloutDone:
    """The event that tells of one ended rollout."""
    calls = list(made_calls(rollout))
    return RolloutDone(
        key=rollout.key,
        trace_id=rollout.trace_id,
        policy_version=rollout.policy_version,
        outcome=rollout.outcome,
        stop_reason=rollout.stop_reason,
        messages=rollout.messages,
        tool_calls=Counter(call.label for call in calls),
        tool_errors=Counter(call.label for call in calls if call.error_code is not None),
        completion_tokens=rollout.sampled_tokens,
        turns=len(rollout.trace.turns),
        duration_s=rollout.duration_s,
        sampling_s=rollout.sampling_s,
        tools_s=rollout.tools_s,
        grading_s=rollout.grading_s,
        reasoning_tokens=rollout.trace.reasoning_tokens,
        turn_versions=rollout.turn_versions if set(rollout.turn_versions) - {rollout.policy_version} else None,
        turn_times=tuple(times for turn in rollout.turns if (times := turn.times) is not None),
    )


@dataclass(frozen=True, slots=True)
class WallShares:
    """How a stretch of wall time divides over what its rollouts waited for, in seconds."""

    sampling_s: float
    tools_s: float
    grading_s: float


def wall_shares(rollouts: Iterable[Rollout], wall_s: float) -> WallShares:
    """Scale the rollouts' own times, which overlap, so that they sum to `wall_s`; all of it is sampling if none ran."""
    held = list(rollouts)
    sampling = fsum(rollout.sampling_s for rollout in held)
    tools = fsum(rollout.tools_s for rollout in held)
    grading = fsum(rollout.grading_s for rollout in held)
    total = sampling + tools + grading
    if total <= 0.0:
        return WallShares(wall_s, 0.0, 0.0)
    return WallShares(wall_s * sampling / total, wall_s * tools / total, wall_s * grading / total)


@dataclass(frozen=True, slots=True)
class MadeCall:
    """One tool call that was carried out, or refused as the model's mistake before it could be."""

    label: str
    """The tool's name; `(unknown)` and `(unreadable)` gather what the model made up, so that metrics stay finite."""
    call: ToolCall
    result: ToolResult | None
    """None when the rollout broke off during this turn."""
    error_code: str | None
    """Of the model's mistake or of the endpoint's failure."""
    status: int | None = None
    """HTTP status that the tool answered last, where that is known."""


def made_calls(rollout: Rollout) -> Iterator[MadeCall]:
    """All calls but those refused because the budget was used up and those of a last turn, which were never made."""
    for turn in rollout.trace.turns:
        for call, result in zip(turn.tool_calls, turn.results, strict=False):
            if result.error_code != CallMistake.BUDGET_USED_UP:
                yield MadeCall(_label(call, result.error_code), call, result, result.error_code, result.status)
    yield from _broken_calls(rollout)


def _broken_calls(rollout: Rollout) -> Iterator[MadeCall]:
    """The calls of the turn in which a tool ended the rollout; only the first of the tool that failed is blamed."""
    failure = rollout.outcome
    if not isinstance(failure, Failure) or failure.stage is not Stage.TOOL or not rollout.trace.turns:
        return
    if rollout.stop_reason is not None:
        return  # The conversation ended; that its tool was not there came out when the round was over.
    is_blamed = False
    for call in rollout.trace.turns[-1].tool_calls:
        is_guilty = not is_blamed and call.name == failure.endpoint
        is_blamed = is_blamed or is_guilty
        code, status = (failure.code.value, failure.status) if is_guilty else (None, None)
        yield MadeCall(_label(call, None), call, None, code, status)


def _label(call: ToolCall, error_code: str | None) -> str:
    if not call.name or error_code == CallMistake.UNREADABLE_CALL:
        return "(unreadable)"
    return "(unknown)" if error_code == CallMistake.UNKNOWN_TOOL else call.name


@dataclass(slots=True)
class _ToolTally:
    calls: int = 0
    graded_calls: int = 0
    output_tokens: list[int] = field(default_factory=list[int])
    latencies_s: list[float] = field(default_factory=list[float])
    errors: Counter[str] = field(default_factory=Counter[str])
    client_errors: Counter[str] = field(default_factory=Counter[str])

    def add(self, made: MadeCall, *, is_graded: bool) -> None:
        self.calls += 1
        self.graded_calls += is_graded
        if made.error_code is not None:
            self.errors[made.error_code] += 1
        if made.status is not None and 400 <= made.status <= 499:
            self.client_errors[str(made.status)] += 1
        if made.result is None:
            return
        self.output_tokens.append(made.result.output_tokens)
        if made.result.attempts > 0:
            self.latencies_s.append(made.result.latency_s)


def _tool_stats(rollouts: Sequence[Rollout]) -> tuple[ToolStats, ...]:
    """By name, in alphabetical order. Latencies are of calls that were sent."""
    tallies: dict[str, _ToolTally] = {}
    graded = sum(isinstance(rollout.outcome, Grade) for rollout in rollouts)
    for rollout in rollouts:
        for made in made_calls(rollout):
            tallies.setdefault(made.label, _ToolTally()).add(made, is_graded=isinstance(rollout.outcome, Grade))
    return tuple(
        ToolStats(
            name=name,
            calls=tally.calls,
            calls_per_rollout_mean=tally.graded_calls / graded if graded else None,
            output_tokens_mean=mean(tally.output_tokens),
            execution_latency_mean_s=mean(tally.latencies_s),
            execution_latency_p50_s=percentile(tally.latencies_s, 0.50),
            execution_latency_p95_s=percentile(tally.latencies_s, 0.95),
            errors_by_code=tally.errors,
            client_errors_by_status=tally.client_errors,
        )
        for name, tally in sorted(tallies.items())
    )


def _graded_count(group: Group) -> int:
    return sum(reward is not None for reward in group.rewards_G)


def _has_signal(group: Group) -> bool:
    return any(advantage is not None for advantage in group.advantages_G)


def _scores_mean(grades: Iterable[Grade]) -> dict[str, float]:
    scores: dict[str, list[float]] = {}
    for grade in grades:
        for name, score in grade.scores.items():
            scores.setdefault(name, []).append(score)
    return {name: fsum(values) / len(values) for name, values in sorted(scores.items())}


@dataclass(slots=True)
class _GraderTally:
    gradings: int = 0
    latencies_s: list[float] = field(default_factory=list[float])
    errors: Counter[str] = field(default_factory=Counter[str])
    model_errors: Counter[str] = field(default_factory=Counter[str])
    spent: list[Mapping[str, TokenUsage]] = field(default_factory=list[Mapping[str, TokenUsage]])

    def add(self, part: PartOutcome) -> None:
        self.gradings += 1
        self.model_errors.update(part.model_errors)
        self.spent.append(part.usage)
        if part.failure_code is not None:
            self.errors[part.failure_code] += 1
        elif part.score is not None:
            self.latencies_s.append(part.latency_s)


def _grader_stats(outcomes: Iterable[Grade | Failure]) -> tuple[GraderStats, ...]:
    """A grader by itself, or a multi grader after its parts; in alphabetical order."""
    tallies: dict[tuple[bool, str], _GraderTally] = {}
    for outcome in outcomes:
        for name, part in outcome.parts.items():
            tallies.setdefault((True, name), _GraderTally()).add(part)
        whole = _whole(outcome)
        if whole is not None:
            tallies.setdefault((False, whole[0]), _GraderTally()).add(whole[1])
    return tuple(
        GraderStats(
            name=name,
            is_part=is_part,
            gradings=tally.gradings,
            latency_mean_s=mean(tally.latencies_s),
            errors_by_code=tally.errors,
            model_errors=tally.model_errors,
            usage=total_usage(tally.spent),
        )
        for (is_part, name), tally in sorted(tallies.items(), key=lambda entry: (not entry[0][0], entry[0][1]))
    )


def _whole(outcome: Grade | Failure) -> tuple[str, PartOutcome] | None:
    """The name of the grader as a whole, and what it came to beyond its parts; None where it was never its turn."""
    usage = {} if outcome.parts else outcome.usage
    if isinstance(outcome, Grade):
        of_parts = {error for part in outcome.parts.values() for error in part.model_errors}
        own = tuple(error for error in outcome.model_errors if error not in of_parts)
        score = outcome.reward if outcome.attempts else None  # Nobody was asked: that took no time.
        return outcome.grader, PartOutcome(score=score, latency_s=outcome.latency_s, usage=usage, model_errors=own)
    is_of_a_part = any(part.failure_code is not None for part in outcome.parts.values())
    if outcome.stage is not Stage.GRADER or is_of_a_part:
        return None
    return outcome.endpoint or "", PartOutcome(failure_code=outcome.code.value, usage=usage)


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean."""
    return fsum(values) / len(values) if values else None


def std(values: Sequence[float]) -> float | None:
    """Standard deviation with Bessel's correction; None for fewer than two values."""
    if len(values) < 2:
        return None
    centre = fsum(values) / len(values)
    return sqrt(fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value below which `share` of the values lie, interpolated between neighbours."""
    if not values:
        return None
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    low = floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)
