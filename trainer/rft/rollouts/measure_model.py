"""Rollouts of messages over rows: what one model earns. A model that cannot be asked at all ends it at once."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rft.core.dataset import DatasetRow
from rft.core.failure import Failure
from rft.core.ids import seed_63
from rft.rollouts.chat_policy import MET_BY_ALL
from rft.rollouts.message_rollout import MessageRollout, MessageSetup, run_message_rollout
from rft.rollouts.missing_tools import BEARABLE_SHARE, failed_at, missing_tools


@dataclass(slots=True)
class MeasuredModel:
    """What came of it."""

    rollouts: list[MessageRollout] = field(default_factory=list[MessageRollout])
    """In the order in which they ended; all that were begun, unless the model is unusable."""
    unusable: Failure | None = None
    """What every rollout would meet: the others were not begun."""

    def with_missing_tools(self) -> "MeasuredModel":
        """Where a tool is not there, whoever met it has failed: no grade that came of it says anything of the model."""
        missing = missing_tools(self.rollouts, bearable=BEARABLE_SHARE * len(self.rollouts))
        ended = [failed_at(rollout, missing) or rollout for rollout in self.rollouts] if missing else self.rollouts
        return MeasuredModel(ended, self.unusable)


async def measure_model(
    rows: Sequence[DatasetRow],
    setup: MessageSetup,
    *,
    samples: int,
    limit: int,
    seed: int,
    on_ended: Callable[[MessageRollout], None] = lambda _: None,
) -> MeasuredModel:
    """`samples` rollouts of each row, `limit` under way at a time; each has a seed of its own, which follows from
    `seed`, row and sample."""
    measured = MeasuredModel()
    places = iter([(row, sample) for sample in range(samples) for row in rows])

    async def work() -> None:
        for row, sample in places:
            if measured.unusable is not None:
                return  # Whoever tells it cancels the others, but a cancellation can get lost.
            own_seed = seed_63(seed, "measured", row.index, sample)
            own = replace(setup, sampling=replace(setup.sampling, seed=own_seed))
            rollout = await run_message_rollout(row, own)
            measured.rollouts.append(rollout)
            on_ended(rollout)
            if isinstance(rollout.outcome, Failure) and rollout.outcome.detail in MET_BY_ALL:
                measured.unusable = rollout.outcome
                raise _Unusable

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(max(1, min(limit, len(rows) * samples))):
                group.create_task(work())
    except* _Unusable:
        pass
    return measured.with_missing_tools()


class _Unusable(Exception):
    """Ends the other rollouts."""
