"""What customers are told of workers, queue and inbox while a run waits for them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from rft.core.events import Notice, StillWaiting
from rft.rollouts.shards.trying_again import Patience

NO_WORKER_S = 30.0
"""A run none of whose shards was taken for so long says so."""
STILL_EVERY_S = 30.0
"""How often a run whose trouble was told writes that it lives: the platform ends trainers that write nothing."""


@dataclass(slots=True)
class ShardNotices:
    """Each trouble is told once when it begins and once when it is over, and in between that the run waits."""

    tell: Callable[[Notice | StillWaiting], None]
    platform: Patience = field(init=False)
    broker: Patience = field(init=False)
    _waiting_since_s: float | None = None
    _is_told: bool = False
    _wrote_at_s: float = -STILL_EVERY_S
    """When the log was last told anything from here."""

    def __post_init__(self) -> None:
        self.platform = self._outage("The platform's inbox for rollouts", "inbox")
        self.broker = self._outage("The queue to the rollout workers", "broker")

    def worker_lost(self, worker: str, rollouts: int) -> None:
        """A worker fell silent, and these of its rollouts are done again."""
        if rollouts:
            message = (
                f"The rollout worker {worker} fell silent. {rollouts} rollouts that it had not handed over begin anew,"
                " under new ids; what it had handed over is kept."
            )
            self._notice("warn", message, "rollout_worker_lost", rollouts=rollouts)

    def forgotten(self, rollouts: int) -> None:
        """The inbox does not know them any more, and they are done again."""
        message = (
            f"The platform's inbox does not know {rollouts} rollouts that were given out, as where its database"
            " lost its last transactions. They begin anew, under new ids."
        )
        self._notice("warn", message, "rollouts_forgotten", rollouts=rollouts)

    def note_running(self) -> None:
        """Workers are at rollouts, which may take long and tell nothing before they have ended."""
        self._still_waiting()

    def note_waiting(self, shards: int, *, is_all: bool) -> None:
        """So many shards wait for a worker now; `is_all`: no worker is at any."""
        now_s = asyncio.get_running_loop().time()
        if not shards or not is_all:
            if self._is_told:
                self._notice("info", "Rollout workers take rollouts again.", "rollout_workers_back")
            self._waiting_since_s, self._is_told = None, False
            return
        if self._waiting_since_s is None:
            self._waiting_since_s = now_s
        if self._is_told:
            self._still_waiting()
        elif now_s - self._waiting_since_s >= NO_WORKER_S:
            self._is_told = True
            message = (
                f"No rollout worker has taken anything for {NO_WORKER_S:.0f} s; the job waits. Start some with"
                " `rft worker --queue rollouts`, or look at why those that run are busy."
            )
            self._notice("warn", message, "no_rollout_worker", shards=shards)

    def _outage(self, what: str, code: str) -> Patience:
        return Patience(
            lambda problem: self._notice(
                "warn", f"{what} cannot be reached; the job waits and goes on by itself: {problem}", f"{code}_down"
            ),
            lambda down_s: self._notice("info", f"{what} is reached again after {down_s:.0f} s.", f"{code}_up"),
            self._still_waiting,
        )

    def _still_waiting(self) -> None:
        if asyncio.get_running_loop().time() - self._wrote_at_s >= STILL_EVERY_S:
            self._write(StillWaiting())

    def _notice(self, level: str, message: str, code: str, **data: int) -> None:
        notice = Notice.model_validate({"level": level, "message": message, "code": code, "data": data or None})
        self._write(notice)

    def _write(self, event: Notice | StillWaiting) -> None:
        self._wrote_at_s = asyncio.get_running_loop().time()
        self.tell(event)
