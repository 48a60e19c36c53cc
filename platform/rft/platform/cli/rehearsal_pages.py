"""Rehearsals as the API has them, for people."""

from collections.abc import Sequence

from rich.console import RenderableType

from rft.platform.cli.pages import Fitted, add, facts, figure, ident, state, table
from rft.platform.cli.views import Problem, View
from rft.platform.cli.words import NOTHING, date, share
from rft.rollouts.rehearsal_report import RehearsalReport


class Plan(View):
    """What is played."""

    burst: int
    rollouts: int


class Rehearsal(View):
    """A rehearsal as far as it came."""

    id: str
    status: str
    is_cancel_requested: bool = False
    created_at: int
    started_at: int | None = None
    finished_at: int | None = None
    training_file: str
    plan: Plan
    report: RehearsalReport | None = None
    error: Problem | None = None

    @property
    def is_over(self) -> bool:
        """Nothing more will become of it."""
        return self.status not in ("queued", "running")

    @property
    def state(self) -> str:
        """The status with what it hides."""
        if self.is_cancel_requested and not self.is_over:
            return f"{self.status}, being cancelled"
        return self.status


def rehearsal_table(rehearsals: Sequence[Rehearsal]) -> Fitted:
    """One rehearsal a line."""
    grid = table(ident("rehearsal"), "state", figure("played"), figure("burst"), figure("excluded"), "created")
    for rehearsal in rehearsals:
        report = rehearsal.report
        add(
            grid,
            rehearsal.id,
            state(rehearsal.state),
            str(rehearsal.plan.rollouts),
            str(rehearsal.plan.burst),
            NOTHING if report is None else share(report.excluded_share),
            date(rehearsal.created_at),
        )
    return Fitted(grid, spare=("burst", "created", "played"))


def rehearsal_page(rehearsal: Rehearsal) -> RenderableType:
    """One rehearsal, but for its report."""
    error, plan = rehearsal.error, rehearsal.plan
    return facts(
        [
            ("rehearsal", rehearsal.id),
            ("state", state(rehearsal.state)),
            ("error", error and error.message),
            ("dataset", rehearsal.training_file),
            ("rollouts", f"{plan.rollouts} of the step's burst of {plan.burst}"),
            ("created", date(rehearsal.created_at)),
            ("started", None if rehearsal.started_at is None else date(rehearsal.started_at)),
            ("finished", None if rehearsal.finished_at is None else date(rehearsal.finished_at)),
        ]
    )
