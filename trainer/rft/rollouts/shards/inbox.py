"""The two sides of a run's inbox, as trainer and worker see them. Every call is one attempt; its caller tries again."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from rft.core.errors import RftError, RunAborted, RunPaused
from rft.core.progress import StageCounts
from rft.rollouts.shards.inbox_wire import InboxNews, SealedShard, SettledRollout, Taken


class StaleLaunch(RunAborted):
    """Another launch has taken the run over, or the run has ended: nothing of this one counts any more."""


class InboxDown(RftError):
    """The platform cannot be reached now."""


class BrokerDown(RftError):
    """The queue cannot be reached now."""


def refused(message: str) -> RunPaused:
    """The platform, or a proxy on the way to it, refuses a call, and no patience heals that."""
    return RunPaused("inbox_refused", message)


class TrainerInbox(Protocol):
    """What a trainer asks. Every call raises StaleLaunch, InboxDown, and RunPaused when it is refused."""

    async def announce(self, run: str) -> None:
        """What workers need to know of the run: a `RunForWorkers` in JSON."""
        ...

    async def give_out(self, shards: Sequence[SealedShard]) -> None:
        """Workers may take these; those given out before are as they were."""
        ...

    async def read(
        self, *, seen: Sequence[int], over: Sequence[str], out: Sequence[str] = (), wait_s: float
    ) -> InboxNews:
        """What workers handed over, once there is something or the wait is over. `out`: shards that are given out."""
        ...

    async def stages(self) -> StageCounts:
        """Where the rollouts are that workers run, as they told last."""
        ...


class WorkerInbox(Protocol):
    """What a worker asks. Every call raises StaleLaunch, InboxDown, and RunPaused when it is refused."""

    async def run(self) -> str:
        """What the trainer announced."""
        ...

    async def take(self, *, is_idle: bool) -> Taken:
        """The oldest shard that nobody has taken; one that has to be alone only where the worker is idle."""
        ...

    async def beat(self, shards: Mapping[str, StageCounts], *, is_leaving: bool = False) -> Sequence[str]:
        """Keep these shards, whose rollouts are there now; returns those that are not this worker's any more."""
        ...

    async def deliver(self, rollouts: Sequence[SettledRollout]) -> Sequence[str]:
        """Hand over; returns the shards that are not this worker's any more, of which nothing was taken."""
        ...


class Hints(Protocol):
    """Tells workers over the queue that a run has shards. A hint that is lost or told twice harms nothing."""

    async def publish(self, hints: int, *, is_again: bool = False) -> None:
        """So many hints. Raises BrokerDown. `is_again`: few while others wait, that jobs keep their turns."""
        ...
