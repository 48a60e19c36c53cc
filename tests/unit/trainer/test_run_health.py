"""Steps that teach nothing are noticed, named and, twice in a row, stop the run where they must."""

from dataclasses import replace

import pytest

from rft.core.errors import RunFailed
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.core.group import Group
from rft.core.step_record import Optimization
from rft.rollouts.stats import rollout_stats
from rft.trainer.run_health import (
    RunHealth,
    check_code,
    check_evaluation,
    check_step,
    judge_unjudged,
    judge_update,
    platform_failure_notice,
)
from tests.shared.by_hand import group_of, trace_of

TRACE = trace_of([1], ("sampled", [2]))


def groups(*rewards: list[float | None]) -> list[Group]:
    return [group_of([TRACE] * len(group), group, row_index=i) for i, group in enumerate(rewards)]


def with_platform_failure() -> list[Group]:
    [group] = groups([1.0, 0.0, None])
    failure = Failure(stage=Stage.SAMPLER, code=FailureCode.SAMPLER_ERROR, message="The sampler failed: boom")
    return [Group(0, (*group.rollouts[:2], replace(group.rollouts[2], outcome=failure)))]


def test_a_step_with_signal_is_trained_on() -> None:
    verdict = check_step(RunHealth(without_signal=1, without_grade=1), groups([1.0, 0.0], [1.0, 1.0]), step=2)
    assert verdict.is_trainable
    assert verdict.notices == ()
    assert verdict.health.has_signal
    assert verdict.health.without_grade == 0


def test_two_steps_without_signal_from_the_start_are_told_once() -> None:
    first = check_step(RunHealth(), groups([1.0, 1.0], [0.0, 0.0]), step=1)
    second = check_step(first.health, groups([0.5, 0.5, None]), step=2)
    third = check_step(second.health, groups([0.5, 0.5]), step=3)
    assert [len(v.notices) for v in (first, second, third)] == [0, 1, 0]
    assert second.notices[0].code == "no_signal"
    assert not any(v.is_trainable for v in (first, second, third))


def test_answers_of_which_nearly_none_could_be_judged_are_told_in_place_of_hard_tasks() -> None:
    misfit = Grade(
        reward=0.0,
        grader="g",
        model_errors=("sample_parse_error",),
        error_details="the answer is not JSON",
        is_invalid=True,
    )
    [silent] = groups([0.0, 0.0])
    unfit = Group(0, tuple(replace(rollout, outcome=misfit) for rollout in silent.rollouts))
    [notice] = check_step(RunHealth(), [unfit], step=1, is_last=True).notices
    assert notice.code == "no_signal"
    assert "2 ended with sample_parse_error, for example: the answer is not JSON" in notice.message
    assert notice.data == {"steps": 1, "answers": {"grades": 2, "sample_parse_error": 2}}
    [other] = check_step(RunHealth(), [unfit, silent], step=1, is_last=True).notices
    assert other.data == {"steps": 1}, "half of them are no reason"


def test_answers_that_are_worth_more_unjudged_than_judged_are_told_of_once() -> None:
    """A grader that takes points off, and the contract's 0 for what it is not asked of."""
    misfit = Grade(
        reward=0.0, grader="g", model_errors=("sample_parse_error",), error_details="no JSON", is_invalid=True
    )
    [judged] = groups([-2.0, -3.0, 0.0])
    unfit = Group(0, (*judged.rollouts[:2], replace(judged.rollouts[2], outcome=misfit)))
    first = judge_unjudged(RunHealth(), [unfit, *groups([0.0, 1.0])], step=3)
    [notice] = first.notices
    assert (notice.level, notice.code) == ("warn", "unjudged_rewarded")
    assert notice.data == {"step": 3, "rewarded": 1, "sample_parse_error": 1}
    assert "In step 3, 1 answers" in notice.message
    assert "Order an `invalid_grade` below" in notice.message
    assert judge_unjudged(first.health, [unfit], step=4).notices == ()
    assert RunHealth.model_validate_json(first.health.model_dump_json()) == first.health


@pytest.mark.parametrize("rewards", [[0.5, 0.0], [-2.0, -2.0], [0.0, 0.0]])
def test_unjudged_answers_that_are_no_better_than_judged_ones_are_not_told_of(rewards: list[float | None]) -> None:
    [judged] = groups(rewards)
    misfit = Grade(reward=rewards[1] or 0.0, grader="g", model_errors=("sample_parse_error",), is_invalid=True)
    unfit = Group(0, (judged.rollouts[0], replace(judged.rollouts[1], outcome=misfit)))
    assert judge_unjudged(RunHealth(), [unfit, *groups([-1.0, 1.0])], step=3).notices == ()


def test_silence_after_a_signal_is_no_news() -> None:
    health = check_step(RunHealth(), groups([1.0, 0.0]), step=1).health
    for step in (2, 3, 4):
        verdict = check_step(health, groups([1.0, 1.0]), step=step)
        assert verdict.notices == ()
        health = verdict.health


def test_nothing_graded_is_told_and_the_second_time_fails_naming_the_endpoint() -> None:
    first = check_evaluation(RunHealth(), groups([None], [None]), step=0)
    assert first.notices[0].code == "nothing_graded"
    assert "grader 'g'" in first.notices[0].message
    with pytest.raises(RunFailed, match="grader 'g': grader answered 503") as failed:
        check_step(first.health, groups([None, None]), step=1)
    assert failed.value.code == "grader_failed"
    assert failed.value.param == "method.reinforcement.grader"


def test_one_grade_breaks_the_row_of_rounds_without_any() -> None:
    health = check_step(RunHealth(), groups([None, None]), step=1).health
    assert health.without_grade == 1
    assert check_evaluation(health, groups([None], [0.0]), step=1).health.without_grade == 0


@pytest.mark.parametrize(
    ("rewards", "valid"),
    [([1.0, 0.0], [1.0]), ([1.0, 1.0], [1.0]), ([None, None], [1.0]), ([1.0, 0.0], [None]), ([1.0, 1.0], [None])],
)
def test_an_evaluation_beside_the_next_step_leaves_what_it_would_have_left_before_it(
    rewards: list[float | None], valid: list[float | None]
) -> None:
    first = check_step(RunHealth(), groups([0.5, 0.5]), step=1).health.trained(0.5)

    def evaluated(health: RunHealth) -> RunHealth:
        verdict = check_evaluation(health, groups(valid), step=1)
        return verdict.health.with_evaluation(1, 0.25)

    straight = check_step(evaluated(first), groups(rewards), step=2).health
    beside = evaluated(first).with_next_step(check_step(first, groups(rewards), step=2).health)
    assert beside == straight


def test_an_evaluation_without_any_grade_beside_a_step_without_any_is_the_second_in_a_row() -> None:
    nothing = groups([None, None])
    evaluated = check_evaluation(RunHealth(), nothing, step=1).health
    health = evaluated.with_next_step(check_step(RunHealth(), nothing, step=2).health)
    with pytest.raises(RunFailed):
        check_step(health, nothing, step=3)


def test_a_run_without_validation_rows_is_not_judged_by_them() -> None:
    assert check_evaluation(RunHealth(), [], step=0).notices == ()


def test_a_step_is_trained_on_without_what_the_platform_lost_of_it() -> None:
    verdict = check_step(RunHealth(), with_platform_failure(), step=1)
    assert verdict.is_trainable
    assert verdict.health.has_signal


def test_what_the_platform_lost_is_told_with_what_it_had_come_to() -> None:
    [group] = with_platform_failure()
    *kept, cut = group.rollouts
    rollouts = [*kept, replace(cut, trace=trace_of([1], ("sampled", [2, 3])), cut_tokens=40)]
    groups_of_step = [Group(0, tuple(rollouts))]
    notice = platform_failure_notice(rollouts, rollout_stats(groups_of_step), what="step 4")
    assert notice is not None
    assert (notice.level, notice.code) == ("warn", "platform_failure")
    assert notice.message == (
        "Step 4 goes on without 1 of its 3 rollouts, which the platform could not finish, for example: The sampler"
        " failed: boom All that were left out had come to 42.0 tokens and 0.0 tool calls on average by then, the"
        " graded ones to 1.0 and 0.0."
    )
    assert notice.data is not None
    assert notice.data["failures_by_code"] == {"sampler_error": 1}
    assert notice.data["excluded_completion_tokens_mean"] == 42.0
    assert platform_failure_notice(kept, rollout_stats([Group(0, tuple(kept))]), what="step 4") is None


def test_what_older_checkpoints_counted_is_passed_over() -> None:
    assert RunHealth.model_validate({"without_grade": 1, "with_platform_failure": 1}) == RunHealth(without_grade=1)


def test_a_run_whose_last_step_breaks_before_it_learnt_anything_has_failed() -> None:
    with pytest.raises(RunFailed, match=r"learnt nothing.*grader 'g': grader answered 503") as failed:
        check_step(RunHealth(), groups([None, None]), step=1, is_last=True)
    assert failed.value.code == "grader_failed"
    assert not check_step(RunHealth(has_signal=True), groups([None, None]), step=9, is_last=True).is_trainable


def test_a_run_of_one_step_without_signal_is_told_too() -> None:
    [notice] = check_step(RunHealth(), groups([1.0, 1.0]), step=1, is_last=True).notices
    assert notice.code == "no_signal"
    assert check_step(RunHealth(without_signal=2), groups([1.0, 1.0]), step=3, is_last=True).notices == ()


@pytest.mark.parametrize(("loss", "grad_norm"), [(float("nan"), 1.0), (1.0, float("inf")), (1.0, float("nan"))])
def test_an_update_that_is_no_number_fails_the_run(loss: float, grad_norm: float) -> None:
    with pytest.raises(RunFailed, match="diverged") as failed:
        judge_update(update(loss, grad_norm), step=2)
    assert failed.value.code == "training_diverged"
    assert failed.value.param == "method.reinforcement.hyperparameters.learning_rate_multiplier"


def test_a_finite_update_and_a_step_without_one_pass() -> None:
    judge_update(update(0.0, 1e9), step=1)
    judge_update(update(None, None), step=1)


def update(loss: float | None, grad_norm: float | None) -> Optimization:
    return Optimization(
        loss=loss,
        grad_norm=grad_norm,
        entropy=None,
        learning_rate=1e-3,
        trained_rollouts=2,
        trained_tokens=9,
        sampling_logp_difference=None,
    )


def with_code_errors(grades: int, errors: int, name: str = "python_grader_runtime_error") -> list[Group]:
    """One group; the last grades are the contract's."""
    from dataclasses import replace

    [group] = groups([1.0] * grades)
    raised = Grade(reward=0.0, grader="g", model_errors=(name,), error_details="raised KeyError: 'x'", is_invalid=True)
    rollouts = [replace(one, outcome=raised) if i >= grades - errors else one for i, one in enumerate(group.rollouts)]
    return [Group(0, tuple(rollouts))]


@pytest.mark.parametrize("name", ["python_grader_runtime_error", "formula_parse_error"])
def test_code_that_raises_is_told_above_a_tenth_and_ends_the_run_above_a_half(name: str) -> None:
    assert check_code(with_code_errors(10, 0), step=3, is_trained_on=True) == ()
    assert check_code(with_code_errors(10, 1, name), step=3, is_trained_on=True) == ()
    [notice] = check_code(with_code_errors(10, 2, name), step=3, is_trained_on=True)
    assert (notice.level, notice.code) == ("warn", "grader_code_errors")
    assert notice.data is not None
    assert (notice.data["errors"], notice.data["grades"], notice.data["errors_by_name"]) == (2, 10, {name: 2})
    assert len(check_code(with_code_errors(10, 5, name), step=3, is_trained_on=True)) == 1
    with pytest.raises(RunFailed, match="KeyError: 'x'") as failed:
        check_code(with_code_errors(10, 6, name), step=3, is_trained_on=True)
    assert (failed.value.code, failed.value.param) == ("grader_error", "method.reinforcement.grader")
    assert len(check_code(with_code_errors(10, 10, name), step=3, is_trained_on=False)) == 1


def test_answers_that_do_not_fit_are_no_errors_of_code() -> None:
    assert check_code(with_code_errors(10, 10, "sample_parse_error"), step=3, is_trained_on=True) == ()
