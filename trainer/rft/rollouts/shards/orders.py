"""Rollouts that a trainer waits for while workers run them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from rft.core.dataset import DatasetRow
from rft.core.events import RolloutBegan
from rft.core.rollout import Rollout, RolloutKey
from rft.rollouts.loop import PendingGrade, begin
from rft.rollouts.sampler import SharedServers, release_policy
from rft.rollouts.setup import RolloutSetup
from rft.rollouts.shards.handing_over import failed_rollout, platform_failure
from rft.rollouts.shards.wire import Settled, Shard, ShardRollout

ALONE_AFTER = 2
"""Dead workers, after which a rollout goes out alone: it may have killed them, and others go down with it."""
MOST_DEAD = 4
"""Dead workers, after which a rollout is the platform's failure: else it would call customers' tools for ever."""


@dataclass(slots=True, eq=False)
class Order:
    """A rollout that somebody waits for."""

    row: DatasetRow
    key: RolloutKey
    setup: RolloutSetup
    is_grading: bool
    ended: "asyncio.Future[PendingGrade | Rollout]"
    began: RolloutBegan | None = None
    """As it is out now."""
    adapter: str | None = None
    dead: int = 0
    """Workers that fell silent while they had it."""

    @property
    def trace_id(self) -> str:
        """As it is out now."""
        assert self.began is not None
        return self.began.trace_id

    async def begin(self) -> None:
        """Draw its id, keep its policy version for it, and tell both."""
        self.began = await begin(self.key, self.setup)
        sampler = self.setup.sampler
        is_shared = isinstance(sampler, SharedServers)
        self.adapter = sampler.adapter_name(self.began.policy_version) if is_shared else None

    def release(self) -> None:
        """Its policy version is not needed for it any more."""
        if self.began is not None:
            release_policy(self.setup.sampler, self.began.trace_id)

    def settle(self, settled: Settled) -> None:
        """Whoever waits for it gets how it ended."""
        self.release()
        if self.ended.done():
            return
        if settled.rollout is not None:
            self.ended.set_result(settled.rollout)
        elif settled.ungraded is not None:
            self.ended.set_result(PendingGrade.of(settled.ungraded, self.row, self.setup))

    def break_off(self, error: Exception) -> None:
        """Whoever waits for it gets the error."""
        self.release()
        if not self.ended.done():
            self.ended.set_exception(error)

    def failed(self, message: str) -> Settled:
        """The platform's failure in place of how it ended."""
        assert self.began is not None
        return Settled(rollout=failed_rollout(self.began, self.row.messages, platform_failure(message)))

    def read(self, body: str) -> Settled:
        """How it ended, as a worker told it."""
        try:
            return Settled.model_validate_json(body)
        except ValidationError as problem:
            first = problem.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            return self.failed(
                f"The rollout ended, but what its worker handed over cannot be read; is it of another release?"
                f" {where}: {first['msg']}"
            )


@dataclass(slots=True)
class GivenOutShard:
    """A shard that is out."""

    orders: dict[str, Order]
    """Those that have not ended, by public id."""
    hinted_s: float
    is_there: bool = False
    """The inbox has said that it has it."""


def shard_of(orders: Sequence[Order], adapter: str | None) -> Shard:
    """Rollouts that have begun, with each of their rows once."""
    rows = {id(order.row): order.row for order in orders}
    places = {row: place for place, row in enumerate(rows)}
    rollouts = [ShardRollout(places[id(order.row)], order.began) for order in orders if order.began is not None]
    return Shard(rows=tuple(rows.values()), rollouts=tuple(rollouts), is_grading=orders[0].is_grading, adapter=adapter)
