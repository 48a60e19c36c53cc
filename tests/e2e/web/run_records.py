"""A made-up run that looks like a real one: an agent over company reports, in the trainer's own records."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from rft.core.estimates import estimate_reward
from rft.core.events import EventLine, Notice, PolicyMeasured, RolloutDone, RunEnded, RunStarted, StepDone, TrainEvent
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade, TokenUsage
from rft.core.messages import Message, Role, ToolCall
from rft.core.rollout import RolloutKey, Split, StopReason
from rft.core.step_record import CheckpointInfo, Optimization, RolloutStats, Timing, ToolStats
from rft.core.turns import TurnTimes
from rft.testing.trace_ids import trace_id_at
from tests.e2e.web.attempt_records import attempts_made

TOOLS = ("cat", "list", "search")
GRADERS = ("answer", "format")
JUDGE = "judge-small"
COMPANIES = ("Aldermoor Freight", "Brindle Optics", "Castell Water", "Dunmore Steel", "Eastmark Foods")
MEASURES = ("net revenue", "operating income", "capital expenditure", "long-term debt")


@dataclass(frozen=True, slots=True)
class RunShape:
    """How big the run is and how often its endpoints break."""

    job_id: str
    seed: int = 1
    total_steps: int = 24
    rows: int = 4
    group_size: int = 8
    valid_rows: int = 12
    eval_interval: int = 4
    failing_share: float = 0.05
    started_at: float = 1_790_000_000.0


def events(shape: RunShape, *, until_step: int | None = None, is_ended: bool = True) -> list[TrainEvent]:
    """The run's events in order, up to and including `until_step`."""
    last = shape.total_steps if until_step is None else until_step
    all_events: list[TrainEvent] = [RunStarted(resumed_from_step=None, total_steps=shape.total_steps, pid=4242)]
    for step in range(last + 1):
        all_events += step_events(shape, step)
    if is_ended and last == shape.total_steps:
        measured = list(_split_rollouts(shape, shape.total_steps, Split.TEST))
        all_events += [*measured, PolicyMeasured(step=shape.total_steps, stats=stats(measured, 1))]
        all_events.append(RunEnded(outcome="succeeded", best_step=shape.total_steps))
    return all_events


def lines(train_events: Sequence[TrainEvent], *, first_seq: int = 1, at: float) -> list[EventLine]:
    """The events as lines of the log, a tenth of a second apart."""
    return [
        EventLine(seq=first_seq + i, at=at + i / 10, event=train_event) for i, train_event in enumerate(train_events)
    ]


def step_events(shape: RunShape, step: int) -> list[TrainEvent]:
    """Rollouts of one step, what the customer should read about them, and the step itself."""
    train = [] if step == 0 else list(_split_rollouts(shape, step, Split.TRAIN))
    is_evaluated = step % shape.eval_interval == 0 or step == shape.total_steps
    valid = list(_split_rollouts(shape, step, Split.VALID)) if is_evaluated else []
    failed = [rollout for rollout in train if isinstance(rollout.outcome, Failure)]
    notices = [_notice(failed)] if failed else []
    ledger = attempts_made(step, [*train, *valid])
    return [*train, *valid, ledger, *notices, _step_done(shape, step, train, valid)]


def _notice(failed: Sequence[RolloutDone]) -> Notice:
    outcome = failed[0].outcome
    assert isinstance(outcome, Failure)
    count = "1 rollout was" if len(failed) == 1 else f"{len(failed)} rollouts were"
    return Notice(level="warn", code="rollouts_excluded", message=f"{count} excluded: {outcome.message}")


def _skill(shape: RunShape, step: int) -> float:
    return 0.3 + 0.62 * (1 - (1 - step / shape.total_steps) ** 2)


def _split_rollouts(shape: RunShape, step: int, split: Split) -> Iterator[RolloutDone]:
    rows, group = (shape.rows, shape.group_size) if split is Split.TRAIN else (shape.valid_rows, 1)
    for row in range(rows):
        for index in range(group):
            row_index = (step * shape.rows + row) % 40 if split is Split.TRAIN else row
            yield rollout(shape, step, split, row_index=row_index, index=index)


def rollout(shape: RunShape, step: int, split: Split, *, row_index: int, index: int) -> RolloutDone:
    """One rollout, the same each time for the same arguments."""
    key = RolloutKey(
        job_id=shape.job_id, job_seed=shape.seed, split=split, step=step, epoch=0, row_index=row_index, index=index
    )
    rng = random.Random(f"{shape.seed}/{split}/{step}/{row_index}/{index}")
    skill = _skill(shape, step)
    is_failed = split is Split.TRAIN and rng.random() < shape.failing_share
    messages, calls, errors = _conversation(rng, row_index, skill, is_cut=is_failed)
    seconds = [round(rng.uniform(0.2, 0.6) * (1 + calls.total()), 3), round(0.08 * calls.total(), 3), 0.04]
    turns = sum(message.role is Role.ASSISTANT for message in messages)
    return RolloutDone(
        key=key,
        trace_id=trace_id_at(key),
        policy_version=max(0, step - 1) if split is Split.TRAIN else step,
        outcome=_failure(rng) if is_failed else _grade(rng, skill),
        stop_reason=None if is_failed else StopReason.COMPLETED,
        messages=messages,
        tool_calls=dict(calls),
        tool_errors=dict(errors),
        completion_tokens=rng.randint(24, 34) * (1 + calls.total()),
        turns=turns,
        duration_s=round(sum(seconds), 3),
        sampling_s=seconds[0],
        tools_s=seconds[1],
        grading_s=0.0 if is_failed else seconds[2],
        turn_times=_turn_times(shape.started_at + step, turns, sampling_s=seconds[0], tools_s=seconds[1]),
    )


def _turn_times(began_at: float, turns: int, *, sampling_s: float, tools_s: float) -> tuple[TurnTimes, ...]:
    """As long as each other, with tools between them."""
    sampled_s, called_s = sampling_s / max(1, turns), tools_s / max(1, turns - 1)
    return tuple(
        TurnTimes(began_at + turn * (sampled_s + called_s), sampled_s, called_s if turn < turns - 1 else 0.0, 28)
        for turn in range(turns)
    )


def _failure(rng: random.Random) -> Failure:
    return rng.choice(
        (
            Failure(
                stage=Stage.TOOL,
                code=FailureCode.SERVER_ERROR,
                message="tool `cat` answered HTTP 503 on every attempt",
                endpoint="cat",
                status=503,
                attempts=4,
                elapsed_s=7.81,
            ),
            Failure(
                stage=Stage.TOOL,
                code=FailureCode.TIMEOUT,
                message="tool `cat` gave no whole reply within 10 s",
                endpoint="cat",
                attempts=4,
                elapsed_s=43.2,
            ),
        )
    )


def _grade(rng: random.Random, skill: float) -> Grade:
    reward = 1.0 if rng.random() < skill else rng.choice((0.0, 0.0, 0.5))
    return Grade(
        reward=reward,
        scores={"answer": reward, "format": 1.0 if reward else round(rng.random(), 2)},
        grader="answer_credit",
        latency_s=0.041,
        usage={JUDGE: TokenUsage(prompt_tokens=812, completion_tokens=34)},
    )


def _conversation(
    rng: random.Random, row_index: int, skill: float, *, is_cut: bool
) -> tuple[tuple[Message, ...], Counter[str], Counter[str]]:
    company, measure = COMPANIES[row_index % len(COMPANIES)], MEASURES[row_index % len(MEASURES)]
    messages = [
        Message(
            role=Role.DEVELOPER,
            content="You answer questions about company reports. Look things up with the tools; end with one number.",
        ),
        Message(role=Role.USER, content=f"What was the {measure} of {company} in 2023, in thousands of dollars?"),
    ]
    calls, errors = Counter[str](), Counter[str]()
    for turn, name in enumerate(_plan(rng, skill)):
        has_erred = rng.random() < 0.15 * (1 - skill)
        call = ToolCall(
            call_id=f"call_{row_index}_{turn}", name=name, arguments=_arguments(name, company, measure, has_erred)
        )
        messages.append(Message(role=Role.ASSISTANT, content=_thought(name, company), tool_calls=(call,)))
        calls[name] += 1
        if is_cut and name == "cat":
            return tuple(messages), calls, errors
        errors.update({name: 1} if has_erred else {})
        output = _output(name, company, measure, has_erred)
        messages.append(Message(role=Role.TOOL, content=output, tool_call_id=call.call_id, name=name))
    messages.append(Message(role=Role.ASSISTANT, content=f"The {measure} of {company} in 2023 was 48,512."))
    return tuple(messages), calls, errors


def _plan(rng: random.Random, skill: float) -> list[str]:
    wandering = max(0, round(rng.gauss(5.5 * (1 - skill), 1)))
    return [*rng.choices(("list", "search", "search", "cat"), k=wandering), "search", "cat"]


def _thought(name: str, company: str) -> str:
    return {
        "search": f"I need the page of {company}'s report that has this figure.",
        "list": "Let me see which reports there are.",
        "cat": "This page should have the table.",
    }[name]


def _arguments(name: str, company: str, measure: str, has_erred: bool) -> str:
    if has_erred:
        return json.dumps({"pth": company})
    slug = company.lower().replace(" ", "_")
    return json.dumps(
        {"search": {"query": f"{company} {measure} 2023", "top": 3}, "list": {"folder": "reports/2023"}}.get(
            name, {"path": f"reports/2023/{slug}/page_04.txt"}
        )
    )


def _output(name: str, company: str, measure: str, has_erred: bool) -> str:
    slug = company.lower().replace(" ", "_")
    if has_erred:
        return "Error: 'path' is a required property"
    if name == "list":
        return "\n".join(f"reports/2023/{other.lower().replace(' ', '_')}/" for other in COMPANIES)
    if name == "search":
        hits = [
            {"path": f"reports/2023/{slug}/page_{page:02}.txt", "score": round(11.25 - page, 2)} for page in (4, 5, 9)
        ]
        return json.dumps({"hits": hits})
    table = "\n".join(
        f"{label:<28}{48_512 + 917 * i:>12,}{45_004 + 871 * i:>12,}"
        for i, label in enumerate(m for m in (*MEASURES, "inventories", "goodwill", "deferred taxes") for _ in range(4))
    )
    return f"{company}, annual report 2023, page 4\n{measure} and other figures, in thousands\n\n{table}"


def _step_done(shape: RunShape, step: int, train: Sequence[RolloutDone], valid: Sequence[RolloutDone]) -> StepDone:
    rng = random.Random(f"{shape.seed}/step/{step}")
    parts = [rng.uniform(3, 4), rng.uniform(0.8, 1.3), rng.uniform(0.1, 0.3), rng.uniform(4, 6)]
    sampling_s, tools_s, grading_s, training_s = parts if train else [0.0] * 4
    eval_s = rng.uniform(3, 4) if valid else 0.0
    return StepDone(
        step=step,
        total_steps=shape.total_steps,
        epoch=0,
        train=stats(train, shape.group_size) if train else None,
        valid=stats(valid, 1) if valid else None,
        timing=Timing(
            sampling_s=sampling_s,
            tools_s=tools_s,
            grading_s=grading_s,
            training_s=training_s,
            eval_s=eval_s,
            full_step_s=sampling_s + tools_s + grading_s + training_s + eval_s,
        ),
        optimization=_optimization(rng, train) if train else None,
        checkpoint=CheckpointInfo(path=f"checkpoints/step-{step}", kept_steps=(step,)),
    )


def _optimization(rng: random.Random, train: Sequence[RolloutDone]) -> Optimization:
    return Optimization(
        loss=rng.gauss(0, 0.01),
        grad_norm=rng.uniform(0.2, 0.6),
        entropy=rng.uniform(0.2, 0.4),
        learning_rate=2e-3,
        trained_rollouts=len(train),
        trained_tokens=sum(done.completion_tokens for done in train),
        sampling_logp_difference=1e-3,
    )


def stats(rollouts: Sequence[RolloutDone], group_size: int) -> RolloutStats:
    """One split of one step, summed up."""
    grades = [done.outcome for done in rollouts if isinstance(done.outcome, Grade)]
    failures = [done.outcome for done in rollouts if isinstance(done.outcome, Failure)]
    rewards = [grade.reward for grade in grades]
    durations = sorted(done.duration_s for done in rollouts)
    groups = [rollouts[i : i + group_size] for i in range(0, len(rollouts), group_size)]
    flat = [len({done.outcome.reward for done in group if isinstance(done.outcome, Grade)}) <= 1 for group in groups]
    return RolloutStats(
        rollouts=len(rollouts),
        graded=len(grades),
        excluded=len(failures),
        excluded_share=len(failures) / len(rollouts),
        failures_by_code=dict(Counter(failure.code.value for failure in failures)),
        replaced=0,
        reward_mean=fmean(rewards) if rewards else None,
        reward_std=pstdev(rewards) if rewards else None,
        reward_mean_if_failures_were_zero=sum(rewards) / len(rollouts),
        grader_scores_mean={name: fmean(grade.scores[name] for grade in grades) for name in GRADERS} if grades else {},
        groups=len(groups),
        zero_variance_groups=sum(flat) if group_size > 1 else 0,
        too_small_groups=0,
        completion_tokens_mean=fmean(done.completion_tokens for done in rollouts),
        completion_tokens_total=sum(done.completion_tokens for done in rollouts),
        turns_mean=fmean(done.turns for done in rollouts),
        tool_calls_mean=fmean(sum(done.tool_calls.values()) for done in rollouts),
        stop_reasons=dict(Counter(done.stop_reason.value for done in rollouts if done.stop_reason)),
        rollout_latency_p50_s=durations[len(durations) // 2],
        rollout_latency_p95_s=durations[int(len(durations) * 0.95)],
        grader_latency_mean_s=0.041,
        tools=tuple(_tool_stats(name, rollouts) for name in TOOLS),
        judge_usage={JUDGE: sum((grade.usage[JUDGE] for grade in grades), TokenUsage())} if grades else {},
        reward_estimate=estimate_reward(
            [[done.outcome.reward for done in group if isinstance(done.outcome, Grade)] for group in groups]
        ),
    )


def _tool_stats(name: str, rollouts: Sequence[RolloutDone]) -> ToolStats:
    calls = sum(done.tool_calls.get(name, 0) for done in rollouts)
    errors = sum(done.tool_errors.get(name, 0) for done in rollouts)
    return ToolStats(
        name=name,
        calls=calls,
        calls_per_rollout_mean=calls / len(rollouts),
        output_tokens_mean=180.0 if name == "cat" else 40.0,
        execution_latency_mean_s=0.08,
        execution_latency_p50_s=0.07,
        execution_latency_p95_s=0.13,
        errors_by_code={"invalid_arguments": errors} if errors else {},
    )
