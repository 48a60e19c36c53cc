"""What a job came to: the best checkpoint against the untrained policy, measured where nothing was chosen."""

from typing import Literal

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.estimates import RewardEstimate, estimate_difference, estimate_reward
from rft.core.rollout import Split
from rft.platform.lifecycle.measurement_repository import RewardsOfRow, is_measured, rewards_by_row
from rft.platform.lifecycle.records import ChosenCheckpoint, FinalFigures

NO_ESTIMATE = "what cannot be told (nothing was graded, or equal rewards on a scale other than 0 to 1)"
_ROWS = {"test": "the rows of the test file", "validation": "these validation rows with fresh seeds"}


async def measure_final(
    connection: AsyncConnection[TupleRow], job_id: str, chosen: ChosenCheckpoint
) -> FinalFigures | None:
    """None where the best checkpoint was not measured: without rows to do so, or because an endpoint was down."""
    if (chosen.step or chosen.has_test_file) and not await is_measured(connection, job_id, chosen.step):
        return None
    before = Split.TEST if chosen.has_test_file else Split.VALID
    untrained = await rewards_by_row(connection, job_id, step=0, split=before)
    after = Split.TEST if chosen.step else before
    trained = await rewards_by_row(connection, job_id, step=chosen.step, split=after)
    if not trained and not untrained:
        return None
    return final_figures(untrained, trained, chosen)


def final_figures(untrained: RewardsOfRow, trained: RewardsOfRow, chosen: ChosenCheckpoint) -> FinalFigures:
    """From the rewards of both policies by row. Pure."""
    rows = sorted(untrained.keys() & trained.keys())
    gain = estimate_difference([untrained[row] for row in rows], [trained[row] for row in rows])
    return FinalFigures(
        rows="test" if chosen.has_test_file else "validation",
        step=chosen.step,
        reward=estimate_reward(list(trained.values())),
        untrained=estimate_reward(list(untrained.values())),
        gain=gain if chosen.step else None,
        selected_at=chosen.validation_reward,
    )


def message_of(figures: FinalFigures) -> tuple[Literal["info", "warn"], str, str]:
    """Level, code and words of the event that tells them."""
    if figures.step == 0:
        return "warn", "no_improvement", "No improvement shown: no checkpoint did better than the untrained policy"
    selected = (
        f" ({figures.selected_at:.3f} when it chose the checkpoint)"
        if figures.rows == "validation" and figures.selected_at is not None
        else ""
    )
    told = (
        f"the checkpoint of step {figures.step} earns {_interval(figures.reward)} on {_ROWS[figures.rows]}{selected},"
        f" the untrained policy {_interval(figures.untrained)}"
    )
    gain = figures.gain
    if gain is None:
        return "warn", "no_estimate", f"Nothing can be said of an improvement: {told}"
    rows = f"{gain.better} rows better, {gain.worse} worse, {gain.same} the same"
    told += f". Row by row {gain.difference:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]: {rows}"
    if figures.is_improvement:
        return "info", "final_figures", f"Final reward: {told}"
    return "warn", "no_improvement", f"No improvement shown beyond what chance explains: {told}"


def _interval(reward: RewardEstimate | None) -> str:
    return NO_ESTIMATE if reward is None else f"{reward.mean:.3f} [{reward.low:.3f}, {reward.high:.3f}]"
