"""Further rows for a step whose groups say nothing: dynamic sampling (DAPO, arXiv 2503.14476), decision 9.

A group is replaced by one of another row, never by another try at the same: rollouts that were drawn until their
rewards differed would be no fair draw.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import chain, islice

from rft.core.group import Group
from rft.rollouts.executor import StepRollouts
from rft.rollouts.group import StepRow
from rft.rollouts.lost_rounds import LostRollouts

RollOut = Callable[[Sequence[StepRow], Sequence[Group]], Awaitable[StepRollouts]]
"""One round of groups of these rows, after those that the step has so far."""


def is_silent(group: Group) -> bool:
    """Whether all of its rollouts are graded, and equally. One that lost some to failures is not: which groups are
    replaced must not hang on whose endpoint was down."""
    return None not in group.rewards_G and all(advantage is None for advantage in group.advantages_G)


async def with_refills(
    first: StepRollouts, *, rounds: int, spare: Iterable[StepRow], failure_share: float, roll_out: RollOut
) -> StepRollouts:
    """The step's rollouts, and those of as many further rows as it has silent groups, in so many rounds at most.

    `spare`: rows that the step does not have, in the order that they are taken in. A round of which the platform lost
    more than `failure_share` is told and counted, and not trained on; none follows it.
    """
    done, waiting = first, iter(spare)
    silent = sum(map(is_silent, first.groups))
    for _ in range(rounds):
        rows = list(islice(waiting, silent))
        if not rows:
            break
        refill = await roll_out(rows, done.groups)
        is_lost = LostRollouts(refill.groups, share=failure_share).is_too_many
        done = StepRollouts(
            groups=done.groups if is_lost else [*done.groups, *refill.groups],
            replaced=[*done.replaced, *refill.replaced],
            unused=[*done.unused, *refill.groups] if is_lost else done.unused,
            resampled=done.resampled + _count(refill),
        )
        if is_lost:
            break
        silent = sum(map(is_silent, refill.groups))
    return done


def _count(done: StepRollouts) -> int:
    return len([*chain.from_iterable(group.rollouts for group in done.groups), *done.replaced])
