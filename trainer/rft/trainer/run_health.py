"""Looks for steps of a run that teach nothing, and says so, or stops it. Pure: state in, state and notices out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean

from pydantic import ConfigDict

from rft.core.base import JsonObject, Record
from rft.core.errors import RunFailed
from rft.core.events import Notice
from rft.core.failure import Failure, Stage
from rft.core.group import Group
from rft.core.rollout import Rollout
from rft.core.step_record import Optimization, RolloutStats
from rft.rollouts.hold import HoldExpired, UnrecoverableRound
from rft.rollouts.lost_rounds import lost
from rft.trainer.code_errors import code_errors
from rft.trainer.early_stop import EvaluatedStep
from rft.trainer.tool_answers import FailedCalls, nearly_all_failed, refused_calls
from rft.trainer.unjudged_answers import UnjudgedAnswers, nearly_all_unjudged, rewarded_unjudged

_PATIENCE = 2
"""This many in a row are an answer, one may be bad luck."""
_PARAMS = {Stage.GRADER: "method.reinforcement.grader", Stage.TOOL: "method.reinforcement.tools"}
"""Where in the order the customer named what is at a stage."""


class RunHealth(Record):
    """What the last steps had in common; part of each checkpoint, so that a resumed run goes on counting."""

    model_config = ConfigDict(extra="ignore")  # Checkpoints of older versions count more.

    without_grade: int = 0
    """Rounds of rollouts in a row in which nothing could be graded."""
    without_signal: int = 0
    """Steps from the start of the run in which all rewards of each group were equal."""
    has_signal: bool = False
    """Whether any step had something to learn from."""
    refusals_told: tuple[str, ...] = ()
    """Tools, each with a status, of which was told that they refuse nearly every call."""
    unjudged_told: bool = False
    """Whether it was told that answers without a judgment are graded above judged ones."""
    evaluated: tuple[EvaluatedStep, ...] = ()
    train_rewards: tuple[float, ...] = ()
    """Of the steps since the last evaluation."""
    is_over: bool = False
    """An evaluation ended the run before its last step."""

    def trained(self, reward: float | None) -> "RunHealth":
        """With the training reward of one more step."""
        return self if reward is None else self.model_copy(update={"train_rewards": (*self.train_rewards, reward)})

    def with_evaluation(self, step: int, valid: float) -> "RunHealth":
        """With one more evaluation."""
        train = fmean(self.train_rewards) if self.train_rewards else None
        evaluated = (*self.evaluated, EvaluatedStep(step=step, valid=valid, train=train))
        return self.model_copy(update={"evaluated": evaluated, "train_rewards": ()})

    def with_next_step(self, later: "RunHealth") -> "RunHealth":
        """With what the next step had shown before this one, of which an evaluation still went on, was complete.

        `later`: the run's health as it was then, without that evaluation.
        """
        seen = {"without_signal": later.without_signal, "has_signal": later.has_signal}
        without_grade = self.without_grade + 1 if later.without_grade else 0
        return self.model_copy(update={**seen, "without_grade": without_grade})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done about a round of rollouts."""

    health: RunHealth
    is_trainable: bool
    notices: tuple[Notice, ...] = ()


def check_evaluation(health: RunHealth, groups: Sequence[Group], *, step: int) -> Verdict:
    """After an evaluation. Raises RunFailed when nothing could be graded twice in a row."""
    failures = _failures(groups)
    if not failures or _has_grade(groups):
        return Verdict(health.model_copy(update={"without_grade": 0}), is_trainable=False)
    health = health.model_copy(update={"without_grade": health.without_grade + 1})
    if health.without_grade >= _PATIENCE:
        raise _nothing_graded(failures)
    return Verdict(health, False, (_nothing_graded_notice(f"the evaluation of step {step}", failures),))


def check_step(health: RunHealth, groups: Sequence[Group], *, step: int, is_last: bool = False) -> Verdict:
    """After the rollouts of a training step. Raises RunFailed when the run cannot go on.

    What the platform lost of them is left out and told: there is little enough of it, or the step was not used.
    `is_last`: no step follows that could make good for a broken one, so a run that learnt nothing fails here.
    """
    failures = _failures(groups)
    is_hopeless = is_last and not health.has_signal
    if failures and not _has_grade(groups):
        health = health.model_copy(update={"without_grade": health.without_grade + 1})
        if health.without_grade >= _PATIENCE:
            raise _nothing_graded(failures)
        if is_hopeless:
            raise _nothing_graded(failures, when="The run learnt nothing, and in its last step")
        return Verdict(health, False, (_nothing_graded_notice(f"step {step}", failures),))
    health = health.model_copy(update={"without_grade": 0})
    if any(advantage is not None for group in groups for advantage in group.advantages_G):
        return Verdict(health.model_copy(update={"has_signal": True}), is_trainable=True)
    return _check_silence(health, groups, is_last=is_last)


def judge_tools(health: RunHealth, groups: Sequence[Group], *, step: int) -> Verdict:
    """After any round of rollouts: tools that refuse nearly every call are told of, each once."""
    notices, about = refused_calls(groups, told=health.refusals_told, step=step)
    if not notices:
        return Verdict(health, is_trainable=False)
    told = (*health.refusals_told, *about)
    return Verdict(health.model_copy(update={"refusals_told": told}), is_trainable=False, notices=notices)


def judge_unjudged(health: RunHealth, groups: Sequence[Group], *, step: int) -> Verdict:
    """After the rollouts of a training step: answers that are worth more unjudged than judged are told of once."""
    found = None if health.unjudged_told else rewarded_unjudged(groups)
    if found is None:
        return Verdict(health, is_trainable=False)
    message = f"In step {step}, {found.message} Order an `invalid_grade` below what the grader gives."
    notice = Notice(level="warn", code="unjudged_rewarded", message=message, data={"step": step, **found.data})
    told = health.model_copy(update={"unjudged_told": True})
    return Verdict(told, is_trainable=False, notices=(notice,))


def check_code(groups: Sequence[Group], *, step: int, is_trained_on: bool) -> tuple[Notice, ...]:
    """After any round of rollouts: what the order's own code raised is told where it is much.

    Raises RunFailed where it is most of a round that was to be trained on: those grades say nothing about the answers.
    """
    errors = code_errors(groups)
    if errors is None or not errors.is_worth_telling:
        return ()
    what = f"step {step}" if is_trained_on else f"the evaluation of step {step}"
    if is_trained_on and errors.is_broken:
        samples = "\n\n".join(errors.samples)
        message = f"{errors.message(what)} Nothing was trained on them: mend the grader. For example:\n\n{samples}"
        raise RunFailed("grader_error", message, _PARAMS[Stage.GRADER])
    return (errors.notice(what, step=step),)


def judge_update(update: Optimization, *, step: int) -> None:
    """After the weights moved, before they become a checkpoint. Raises RunFailed when they are no numbers any more."""
    if all(isfinite(figure) for figure in (update.loss, update.grad_norm) if figure is not None):
        return
    raise RunFailed(
        "training_diverged",
        f"The update of step {step} is not finite: the training has diverged. A smaller learning_rate_multiplier helps;"
        " the checkpoints of the steps before are kept.",
        "method.reinforcement.hyperparameters.learning_rate_multiplier",
    )


def endpoint_down(expired: HoldExpired) -> RunFailed:
    """A hold that lasted too long, in words for the customer."""
    return RunFailed("endpoint_down", str(expired), _PARAMS.get(expired.failing.stage))


def order_at_fault(unrecoverable: UnrecoverableRound) -> RunFailed:
    """A step of which too much failed because of the order itself, in words for the customer."""
    return RunFailed(unrecoverable.code.value, str(unrecoverable), _PARAMS.get(unrecoverable.failing.stage))


def platform_failure_notice(rollouts: Sequence[Rollout], stats: RolloutStats, *, what: str) -> Notice | None:
    """That `what` goes on without rollouts that the platform lost; None where it lost none."""
    ours = [failure for rollout in rollouts if (failure := lost(rollout)) is not None]
    if not ours:
        return None
    return Notice(
        level="warn",
        code="platform_failure",
        message=(
            f"{what[:1].upper()}{what[1:]} goes on without {len(ours)} of its {stats.rollouts} rollouts, which the"
            f" platform could not finish, for example: {ours[0].message} All that were left out had come to"
            f" {_figure(stats.excluded_completion_tokens_mean)} tokens and"
            f" {_figure(stats.excluded_tool_calls_mean)} tool calls on average by then, the graded ones to"
            f" {_figure(stats.completion_tokens_mean)} and {_figure(stats.tool_calls_mean)}."
        ),
        data={
            "failures_by_code": dict(Counter(failure.code.value for failure in ours)),
            "completion_tokens_mean": stats.completion_tokens_mean,
            "excluded_completion_tokens_mean": stats.excluded_completion_tokens_mean,
            "tool_calls_mean": stats.tool_calls_mean,
            "excluded_tool_calls_mean": stats.excluded_tool_calls_mean,
        },
    )


def _figure(mean: float | None) -> str:
    return "no" if mean is None else f"{mean:.1f}"


def _check_silence(health: RunHealth, groups: Sequence[Group], *, is_last: bool) -> Verdict:
    """All groups had equal rewards. Said once: after some steps, or at the end of a run that has fewer."""
    if health.has_signal:
        return Verdict(health, is_trainable=False)
    health = health.model_copy(update={"without_signal": health.without_signal + 1})
    if health.without_signal != _PATIENCE and not (is_last and health.without_signal < _PATIENCE):
        return Verdict(health, is_trainable=False)
    notice = _no_signal(nearly_all_failed(groups), nearly_all_unjudged(groups), steps=health.without_signal)
    return Verdict(health, False, (notice,))


def _no_signal(failed: FailedCalls | None, unjudged: UnjudgedAnswers | None, *, steps: int) -> Notice:
    """The dataset is not to blame where tools never answered, or where no answer had the form that was asked for."""
    silence = "in every group so far all rollouts of a row got the same reward, so there is nothing to learn from"
    evidence: JsonObject = {}
    if failed is not None:
        message = f"No signal: {silence}, and {failed.message} Look at the tools first."
        evidence = {"tool_calls": failed.data}
    elif unjudged is not None:
        message = f"No signal: {silence}, and {unjudged.message} Say in the prompts how to answer, or mend the grader."
        evidence = {"answers": unjudged.data}
    else:
        message = (
            f"No signal in this dataset: {silence}. The tasks may be too hard or too easy for this model, or the grader"
            " too coarse."
        )
    return Notice(level="warn", code="no_signal", message=message, data={"steps": steps, **evidence})


def _failures(groups: Sequence[Group]) -> list[Failure]:
    return [rollout.outcome for rollout in _rollouts(groups) if isinstance(rollout.outcome, Failure)]


def _has_grade(groups: Sequence[Group]) -> bool:
    return any(rollout.reward is not None for rollout in _rollouts(groups))


def _rollouts(groups: Sequence[Group]) -> list[Rollout]:
    return [rollout for group in groups for rollout in group.rollouts]


def _nothing_graded(failures: Sequence[Failure], when: str = "Twice in a row") -> RunFailed:
    stage, endpoint, example = _failing_endpoint(failures)
    code = {Stage.GRADER: "grader_failed", Stage.TOOL: "tool_failed"}.get(stage, "platform_failure")
    where = f"{stage} {endpoint!r}" if endpoint else f"the {stage}"
    return RunFailed(
        code,
        f"{when} not one rollout could be graded, mostly because of {where}: {example.message}",
        _PARAMS.get(stage),
    )


def _nothing_graded_notice(what: str, failures: Sequence[Failure]) -> Notice:
    stage, endpoint, example = _failing_endpoint(failures)
    where = f"{stage} {endpoint!r}" if endpoint else f"the {stage}"
    return Notice(
        level="error",
        code="nothing_graded",
        message=f"Nothing in {what} could be graded, mostly because of {where}: {example.message}",
        data={"failures_by_code": dict(Counter(failure.code.value for failure in failures))},
    )


def _failing_endpoint(failures: Sequence[Failure]) -> tuple[Stage, str | None, Failure]:
    """Where most failures happened, and one of them."""
    (stage, endpoint), _ = Counter((failure.stage, failure.endpoint) for failure in failures).most_common(1)[0]
    return stage, endpoint, next(f for f in failures if (f.stage, f.endpoint) == (stage, endpoint))
