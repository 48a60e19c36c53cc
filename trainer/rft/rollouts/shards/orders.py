"""Rollouts that a trainer waits for while workers run them."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from pydantic import ValidationError

from rft.core.dataset import DatasetRow
from rft.core.events import RolloutBegan
from rft.core.failure import Failure
from rft.core.rollout import Rollout, RolloutKey
from rft.rollouts.loop import PendingGrade, begin
from rft.rollouts.sampler import SharedServers, release_policy
from rft.rollouts.setup import RolloutSetup
from rft.rollouts.shards.handing_over import failed_rollout, platform_failure
from rft.rollouts.shards.wire import Settled, Shard, ShardRollout, shard_sizes

_APART_AFTER = 2
"""Dead workers, after which a rollout goes out with few others, to a process that runs nothing else: one of them may
have killed them, and all that it runs beside it would go down again."""
_FEW = 8
_ALONE_AFTER = 3
"""Dead workers, after which it goes out by itself."""
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

    def fail(self, message: str) -> None:
        """It ends with the platform's failure, which customers' servers are told, too."""
        settled = self.failed(message)
        assert settled.rollout is not None
        assert isinstance(settled.rollout.outcome, Failure)
        self.tell_end(settled.rollout.outcome)
        self.settle(settled)

    def failed(self, message: str) -> Settled:
        """The platform's failure in place of how it ended."""
        assert self.began is not None
        return Settled(rollout=failed_rollout(self.began, self.row.messages, platform_failure(message)))

    def tell_end(self, outcome: Failure | None) -> None:
        """To customers' servers: nothing more comes of it under its id. None: it was cancelled."""
        if self.setup.host is not None:
            self.setup.host.ended(trace_id=self.trace_id, outcome=outcome)

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


def together(orders: Sequence[Order]) -> Iterator[Sequence[Order]]:
    """Those that go out in one shard, by how many workers died of them."""
    usual = [order for order in orders if order.dead < _APART_AFTER]
    few = [order for order in orders if _APART_AFTER <= order.dead < _ALONE_AFTER]
    alone = [order for order in orders if order.dead >= _ALONE_AFTER]
    for sizes, alike in (
        (shard_sizes(len(usual)), usual),
        ([_FEW] * -(-len(few) // _FEW), few),
        ([1] * len(alone), alone),
    ):
        left = iter(alike)
        yield from (list(islice(left, size)) for size in sizes)


def is_apart(orders: Sequence[Order]) -> bool:
    """Whether one of them may take its worker with it."""
    return any(order.dead >= _APART_AFTER for order in orders)


def shard_of(orders: Sequence[Order], adapter: str | None) -> Shard:
    """Rollouts that have begun, with each of their rows once."""
    rows = {id(order.row): order.row for order in orders}
    places = {row: place for place, row in enumerate(rows)}
    rollouts = [ShardRollout(places[id(order.row)], order.began) for order in orders if order.began is not None]
    return Shard(rows=tuple(rows.values()), rollouts=tuple(rollouts), is_grading=orders[0].is_grading, adapter=adapter)
