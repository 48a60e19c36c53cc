"""What trainers, workers and the platform's inbox say to each other; shards and results are opaque texts here."""

from collections.abc import Mapping

from pydantic import Field

from rft.core.base import Record
from rft.core.progress import StageCounts

SHARD_LEASE_S = 8.0
"""A worker that was not heard of for so long is dead: what it has not handed over is given out again."""
BEAT_S = 1.5
"""How often a worker says that it lives."""


class SealedShard(Record):
    """A shard as the inbox keeps it."""

    id: str
    body: str
    """A `Shard` in JSON."""
    is_alone: bool = False
    """One of its rollouts may take its worker with it: for a process that runs nothing else meanwhile."""


class GiveOut(Record):
    """Shards that workers may take."""

    shards: tuple[SealedShard, ...]


class Take(Record):
    """A worker asks for a shard that nobody has taken."""

    worker: str
    is_idle: bool = False
    """Its process runs nothing, so it may have a shard that has to be alone."""


class Taken(Record):
    """The oldest one; None where nothing is left."""

    shard: SealedShard | None
    is_one_waiting: bool = False
    """There is one for a worker that is idle, which the one that asked is not."""


class Beat(Record):
    """A worker lives, and these are the shards it is at."""

    worker: str
    shards: tuple[str, ...]
    stages: Mapping[str, StageCounts] = Field(default_factory=dict[str, StageCounts])
    """Where their rollouts are now, by shard."""
    is_leaving: bool = False
    """It is shutting down: what it has not handed over is lost now, and not when its lease ends."""


class Gone(Record):
    """Shards that are not this worker's any more: nothing of them counts."""

    shards: tuple[str, ...]


class SettledRollout(Record):
    """One rollout that ended, in the shard it was given out with."""

    shard_id: str
    trace_id: str
    body: str
    """A `Settled` in JSON."""


class Delivery(Record):
    """What a worker hands over. The same rollout twice counts once."""

    worker: str
    rollouts: tuple[SettledRollout, ...]


class Read(Record):
    """The trainer asks for news."""

    seen: tuple[int, ...] = ()
    """Positions of rollouts that were read: they are dropped."""
    over: tuple[str, ...] = ()
    """Shards of which nothing more is wanted: they are dropped."""
    out: tuple[str, ...] = ()
    """Shards that were given out and have not ended: those that the inbox does not know are told."""
    wait_s: float = Field(default=0.0, ge=0, le=60)
    """How long to wait while there is no news."""


class InboxRollout(Record):
    """One rollout that was handed over."""

    position: int
    trace_id: str
    body: str


class LostShard(Record):
    """A shard whose worker fell silent. Whatever it handed over has been read before this is told."""

    id: str
    worker: str
    has_left: bool = False
    """The worker was shut down, and said so."""


class InboxNews(Record):
    """What happened since the last look. Told again until it is `seen`, or the shard `over`."""

    rollouts: tuple[InboxRollout, ...] = ()
    lost: tuple[LostShard, ...] = ()
    untaken: tuple[str, ...] = ()
    """Shards that no worker has taken yet."""
    unknown: tuple[str, ...] = ()
    """Shards that were said to be out and are not in the inbox, as where a database lost its last transactions."""
