"""What processes before this one finished of a round: a rollout that ended with a grade keeps its place. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rft.core.failure import Failure
from rft.core.rollout import Rollout, RolloutKey


@dataclass(frozen=True, slots=True)
class EndedRollout:
    """A rollout as it ended in its process."""

    rollout: Rollout
    is_replaced: bool
    """It failed, and one of the step's replacements was granted for it."""


@dataclass(frozen=True, slots=True)
class KeptRollout:
    """A graded rollout, and the failed ones whose place it took."""

    rollout: Rollout
    failed: tuple[EndedRollout, ...] = ()
    """In the order in which they ended."""

    @property
    def ended(self) -> list[EndedRollout]:
        """All of them, the graded one last."""
        return [*self.failed, EndedRollout(self.rollout, is_replaced=False)]

    @property
    def trace_ids(self) -> list[str]:
        """Of all of them."""
        return [ended.rollout.trace_id for ended in self.ended]


def place_of(key: RolloutKey) -> RolloutKey:
    """The same for all attempts at one slot of a group."""
    return key.model_copy(update={"attempt": 0, "seed_attempt": None})


def kept_by_place(ended: Iterable[EndedRollout]) -> dict[RolloutKey, KeptRollout]:
    """Of one round, in the order in which they ended, what is final: the places whose last rollout has a grade.

    A rollout that was told of twice, because a missing tool came out after its grade, is as it was told last.
    """
    by_id = {one.rollout.trace_id: one for one in ended}
    by_place: dict[RolloutKey, list[EndedRollout]] = {}
    for one in by_id.values():
        by_place.setdefault(place_of(one.rollout.key), []).append(one)
    return {
        place: KeptRollout(last.rollout, tuple(before))
        for place, (*before, last) in by_place.items()
        if last.rollout.reward is not None and all(isinstance(one.rollout.outcome, Failure) for one in before)
    }


class KeptRollouts:
    """What is kept of one round; each place is given out once."""

    def __init__(
        self,
        by_place: Mapping[RolloutKey, KeptRollout],
        *,
        on_refused: Callable[[Sequence[str]], None] = lambda trace_ids: None,
    ) -> None:
        """`on_refused`: told the ids of what groups did not take, before any of them is rolled out again."""
        self._by_place, self._on_refused = dict(by_place), on_refused
        self._refused: list[str] = []

    def take(self, keys: Sequence[RolloutKey], *, only_whole: bool) -> list[KeptRollout | None]:
        """For each slot of a group what keeps its place. `only_whole`: all of the group, or none of it."""
        taken = [self._by_place.pop(place_of(key), None) for key in keys]
        found = [one for one in taken if one is not None]
        if not only_whole or len(found) in (0, len(keys)):
            return taken
        self._refused += [trace_id for one in found for trace_id in one.trace_ids]
        return [None] * len(keys)

    def drop_refused(self) -> None:
        """Every group has taken what it takes."""
        refused, self._refused = self._refused, []
        if refused:
            self._on_refused(refused)

    @property
    def unclaimed(self) -> list[str]:
        """Ids of what was not given out."""
        return [trace_id for kept in self._by_place.values() for trace_id in kept.trace_ids]

    def forget(self) -> None:
        """Nothing of the round is kept any more."""
        self._by_place.clear()


NOTHING_KEPT = KeptRollouts({})
