"""Which checkpoints are kept."""

import pytest

from rft.core.checkpoint import Checkpoint, best


def checkpoint(step: int, valid: float | None, train: float | None = None) -> Checkpoint:
    return Checkpoint(step=step, path=f"checkpoints/checkpoint-{step}", train_reward=train, valid_reward=valid)


def steps(checkpoints: list[Checkpoint]) -> list[int]:
    return [c.step for c in best(checkpoints)]


def test_the_three_best_by_validation_reward_best_first() -> None:
    assert steps([checkpoint(i, r) for i, r in enumerate([0.3, 0.9, 0.1, 0.8, 0.85])]) == [1, 4, 3]


def test_the_later_wins_a_tie_and_unevaluated_steps_do_not_count() -> None:
    assert steps([checkpoint(1, 0.5), checkpoint(2, None, 0.99), checkpoint(3, 0.5)]) == [3, 1]


@pytest.mark.parametrize("scale", [1.0, -1.0, 1e9])
def test_rewards_that_differ_by_rounding_are_a_tie(scale: float) -> None:
    rounded = scale * (0.6 + 0.3 + 0.1)
    assert rounded != scale
    assert steps([checkpoint(10, scale), checkpoint(20, rounded), checkpoint(5, 0.999 * scale)])[:2] == (
        [20, 10] if scale > 0 else [5, 20]
    )
    assert steps([checkpoint(10, None, scale), checkpoint(20, None, rounded), checkpoint(30, None)]) == [20, 10, 30]


def test_without_validation_the_training_reward_decides() -> None:
    assert steps([checkpoint(1, None, 0.2), checkpoint(2, None, None), checkpoint(3, None, 0.7)]) == [3, 1, 2]


def test_an_evaluation_that_lost_most_rollouts_is_no_evidence() -> None:
    lucky = checkpoint(4, 1.0).model_copy(update={"graded_share": 0.005})
    assert steps([checkpoint(1, 0.5), lucky, checkpoint(2, 0.6)]) == [2, 1, 4]
