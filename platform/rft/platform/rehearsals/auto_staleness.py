"""What `max_staleness: "auto"` becomes for an order, from what is known of its endpoints and its model."""

from dataclasses import dataclass

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.base import JsonObject
from rft.core.failure import Stage
from rft.core.hyperparameters import AUTO_STALENESS
from rft.platform.orders.addresses import addresses_in, caps_in
from rft.platform.orders.devices import take_turns
from rft.platform.rehearsals.measured_updates_repository import measured_updates
from rft.platform.rehearsals.repository import RehearsalRepository, RehearsalRow
from rft.platform.settings import Settings
from rft.rollouts.rehearsal_pace import ASSUMED_UPDATE_S, caps_by_url, rehearsed_pace

_LATEST = 50
"""Rehearsals that are looked through for one of the same endpoints."""


@dataclass(frozen=True, slots=True)
class AutoStaleness:
    """The choice, and what it rests on."""

    max_staleness: int = AUTO_STALENESS
    rehearsal_id: str | None = None
    """None: no rehearsal of these endpoints tells of them."""
    rollout_s: float = 0.0
    update_s: float = 0.0
    measured_in: str | None = None
    """The job whose updates were measured; None: a usual length is assumed."""
    is_in_turns: bool = False
    """Whether rollouts and updates take turns on one GPU here."""
    has_one_version: bool = False
    """Whether the engine holds one policy version of this model at a time."""

    @property
    def message(self) -> str:
        """In words, for people."""
        chosen = f"max_staleness auto is {self.max_staleness}"
        if self.is_in_turns:
            return f"{chosen}: rollouts and updates take turns on one GPU here (RFT_DEVICES)"
        if self.has_one_version:
            return (
                f"{chosen}: the engine transformers holds one version of this model at a time, which attends to windows"
            )
        if self.rehearsal_id is None:
            return f"{chosen}: no rehearsal of these endpoints tells how long its rollouts take"
        known = f"took in {self.measured_in}" if self.measured_in else "is assumed to take"
        return (
            f"{chosen}: tools and grader took {self.rollout_s:.1f} s of a rollout in {self.rehearsal_id}, and an update"
            f" of this model {known} {self.update_s:.1f} s"
        )


async def auto_staleness(
    connection: AsyncConnection[TupleRow],
    settings: Settings,
    *,
    method: JsonObject,
    model: str,
    rollouts: int,
    has_one_version: bool,
) -> AutoStaleness:
    """For steps of so many rollouts; `method` without secrets, as jobs and rehearsals keep it. `has_one_version`:
    whether the engine holds one policy version of the model at a time."""
    if take_turns(settings):
        return AutoStaleness(0, is_in_turns=True)
    if has_one_version:
        return AutoStaleness(0, has_one_version=True)
    rehearsal = await _rehearsal_of(connection, addresses_in(method))
    if rehearsal is None or rehearsal.report is None:
        return AutoStaleness()
    caps = caps_by_url(caps_in(method))
    found = rehearsed_pace(rehearsal.report, rehearsal.plan, rollouts=rollouts, caps=caps)
    if found is None:
        return AutoStaleness()
    known = await measured_updates(connection, model=model)
    update_s = ASSUMED_UPDATE_S if known is None else known.s_per_rollout * rollouts
    return AutoStaleness(
        found.auto_staleness(update_s),
        rehearsal.id,
        found.rollout_s,
        update_s=update_s,
        measured_in=None if known is None else known.job_id,
    )


async def _rehearsal_of(
    connection: AsyncConnection[TupleRow], addresses: dict[tuple[Stage, str], str]
) -> RehearsalRow | None:
    """The newest that was completed with just these endpoints."""
    if not addresses:
        return None
    rows = await RehearsalRepository(connection).page(after=None, limit=_LATEST)
    return next((row for row in rows if row.status == "completed" and _is_of(row, addresses)), None)


def _is_of(row: RehearsalRow, addresses: dict[tuple[Stage, str], str]) -> bool:
    """Graders that the order does not name get a name of their own with a job, so those go by their address."""
    return _told_apart(addresses_in(row.method)) == _told_apart(addresses)


def _told_apart(addresses: dict[tuple[Stage, str], str]) -> set[tuple[Stage, str, str]]:
    return {(stage, name if stage is Stage.TOOL else "", url) for (stage, name), url in addresses.items()}
