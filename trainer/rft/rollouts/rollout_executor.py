"""Who runs a rollout: this process, or a worker on any host. Everything that is decided about rollouts stays here."""

from typing import TYPE_CHECKING, Protocol

from rft.core.dataset import DatasetRow
from rft.core.rollout import Rollout, RolloutKey
from rft.rollouts.loop import PendingGrade, run_and_grade, run_conversation

if TYPE_CHECKING:
    from rft.rollouts.setup import RolloutSetup


class RolloutExecutor(Protocol):
    """Runs single rollouts. Which ones, and what becomes of those that failed, is its caller's affair."""

    async def run(
        self, row: DatasetRow, key: RolloutKey, setup: "RolloutSetup", *, is_grading: bool
    ) -> PendingGrade | Rollout:
        """One conversation, with its grade where `is_grading`. Never raises but for cancellation and a stopped run.

        A conversation that ended and lacks its grade is a `PendingGrade`: it can be graded again here.
        """
        ...


class InProcessExecutor:
    """Runs rollouts in the caller's event loop."""

    async def run(
        self, row: DatasetRow, key: RolloutKey, setup: "RolloutSetup", *, is_grading: bool
    ) -> PendingGrade | Rollout:
        """One conversation, here and now."""
        run = run_and_grade if is_grading else run_conversation
        return await run(row, key, setup)
