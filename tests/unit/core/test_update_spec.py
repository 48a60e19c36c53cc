"""How a policy is updated: what `auto` becomes."""

import pytest

from rft.core.update_spec import STALE_EPSILON, Update, UpdateWanted, resolve_update


def test_what_nobody_ordered_is_as_plain_as_can_be() -> None:
    assert resolve_update(UpdateWanted(), steps=100, parameters=None) == Update()
    assert resolve_update(UpdateWanted(), steps=100, parameters=600_000) == Update()


@pytest.mark.parametrize(("steps", "warmup"), [(10, 0), (40, 2), (100, 5), (1000, 10)])
def test_large_models_are_warmed_up(steps: int, warmup: int) -> None:
    assert resolve_update(UpdateWanted(), steps=steps, parameters=4_000_000_000).warmup_steps == warmup
    wanted = UpdateWanted(warmup_steps=0)
    assert resolve_update(wanted, steps=steps, parameters=4_000_000_000).warmup_steps == 0


@pytest.mark.parametrize(
    ("wanted", "clip"),
    [
        (UpdateWanted(epsilon=0.2), (0.2, 0.2)),
        (UpdateWanted(epsilon=0.2, epsilon_high=0.28), (0.2, 0.28)),
        (UpdateWanted(epsilon_high=0.28), (None, 0.28)),
    ],
)
def test_the_clip_range_is_as_wide_above_as_below_unless_ordered_otherwise(
    wanted: UpdateWanted, clip: tuple[float | None, float | None]
) -> None:
    update = resolve_update(wanted, steps=10, parameters=None)
    assert (update.epsilon, update.epsilon_high) == clip


@pytest.mark.parametrize(
    ("wanted", "clip"),
    [
        (UpdateWanted(), (STALE_EPSILON, STALE_EPSILON)),
        (UpdateWanted(epsilon=0.1), (0.1, 0.1)),
        (UpdateWanted(epsilon_high=0.28), (STALE_EPSILON, 0.28)),
    ],
)
def test_where_older_policies_sample_there_is_a_clip_range(
    wanted: UpdateWanted, clip: tuple[float | None, float | None]
) -> None:
    update = resolve_update(wanted, steps=10, parameters=None, is_stale=True)
    assert (update.epsilon, update.epsilon_high) == clip


@pytest.mark.parametrize("is_stale", [False, True])
def test_a_loss_that_caps_weights_gets_no_range_for_a_cap(is_stale: bool) -> None:
    """An `epsilon` alone would be taken for the largest weight."""
    for wanted in (UpdateWanted(), UpdateWanted(epsilon=0.2)):
        update = resolve_update(wanted, steps=10, parameters=None, is_stale=is_stale, is_capped=True)
        assert update.epsilon_high is None
