"""The last word on a job: what it says for each way a comparison can come out."""

import pytest

from rft.platform.lifecycle.measurement_repository import RewardsOfRow
from rft.platform.lifecycle.records import ChosenCheckpoint
from rft.platform.worker.final_figures import NO_ESTIMATE, final_figures, message_of

CHOSEN = ChosenCheckpoint(step=12, validation_reward=0.97, has_test_file=False)


def rows(*rewards: float) -> RewardsOfRow:
    return {row: [reward] for row, reward in enumerate(rewards)}


def test_a_clear_gain_is_told_with_both_intervals_and_what_chose_the_checkpoint() -> None:
    figures = final_figures(rows(*[0.0] * 60, *[1.0] * 40), rows(*[1.0] * 95, *[0.0] * 5), CHOSEN)
    level, code, message = message_of(figures)
    assert (level, code) == ("info", "final_figures")
    assert message == (
        "Final reward: the checkpoint of step 12 earns 0.950 [0.887, 0.979] on these validation rows with fresh seeds"
        " (0.970 when it chose the checkpoint), the untrained policy 0.400 [0.308, 0.499]. Row by row +0.550"
        " [+0.422, +0.657]: 60 rows better, 5 worse, 35 the same"
    )


def test_rows_of_a_test_file_need_no_excuse() -> None:
    chosen = CHOSEN.model_copy(update={"has_test_file": True})
    _, _, message = message_of(final_figures(rows(*[0.0] * 50), rows(*[1.0] * 50), chosen))
    assert "on the rows of the test file, the untrained policy" in message
    assert "when it chose" not in message


def test_a_gain_that_chance_explains_is_none() -> None:
    figures = final_figures(rows(*[1.0] * 20, *[0.0] * 20), rows(*[1.0] * 22, *[0.0] * 18), CHOSEN)
    assert figures.gain is not None
    assert figures.gain.difference == pytest.approx(0.05)
    assert message_of(figures)[:2] == ("warn", "no_improvement")
    assert message_of(figures)[2].startswith("No improvement shown beyond what chance explains: the checkpoint of step")


def test_where_the_untrained_policy_is_the_best_nothing_was_shown() -> None:
    figures = final_figures(rows(1.0, 0.5), rows(1.0, 0.5), CHOSEN.model_copy(update={"step": 0}))
    assert (figures.step, figures.gain, figures.is_improvement) == (0, None, False)
    assert message_of(figures) == (
        "warn",
        "no_improvement",
        "No improvement shown: no checkpoint did better than the untrained policy",
    )


def test_only_rows_that_both_have_are_compared() -> None:
    figures = final_figures({1: [0.0, 0.5], 3: [1.0]}, {3: [0.5, 0.5], 4: [1.0]}, CHOSEN)
    assert figures.gain is not None
    assert (figures.gain.rows, figures.gain.difference) == (1, -0.5)
    assert figures.reward is not None
    assert (figures.reward.rows, figures.reward.mean) == (2, 0.75)


def test_nothing_graded_is_said_and_is_no_zero() -> None:
    figures = final_figures(rows(1.0), {}, CHOSEN)
    assert (figures.reward, figures.gain) == (None, None)
    level, code, message = message_of(figures)
    assert (level, code) == ("warn", "no_estimate")
    assert f"earns {NO_ESTIMATE}" in message


def test_equal_rewards_on_a_scale_of_their_own_are_not_called_ungraded() -> None:
    """They have no interval, and neither has their difference."""
    figures = final_figures(rows(3.0, 3.0), rows(7.0, 7.0), CHOSEN)
    assert (figures.reward, figures.gain) == (None, None)
    assert message_of(figures)[:2] == ("warn", "no_estimate")
    assert "equal rewards" in message_of(figures)[2]
