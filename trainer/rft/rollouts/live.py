"""What the rollouts of the rounds under way are doing now, for whoever looks. Used from one event loop alone."""

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from rft.core.failure import Stage
from rft.core.progress import RoundProgress, StageCounts
from rft.core.rollout import RolloutKey


class LiveCalls(Protocol):
    """The tool calls of a conversation."""

    @property
    def unanswered(self) -> Collection[str]:
        """Names of the tools of the current turn that have not answered yet, once for each call."""
        ...


class LiveConversation(Protocol):
    """A conversation under way."""

    @property
    def holder(self) -> Stage:
        """The stage that it is in."""
        ...

    @property
    def is_queued(self) -> bool:
        """Whether its request waits for the engine to let it in."""
        ...

    @property
    def calls(self) -> LiveCalls:
        """The calls that it made."""
        ...


class LiveSlot(Protocol):
    """A place in a round for one rollout."""

    @property
    def key(self) -> RolloutKey:
        """Of the rollout that is to fill it."""
        ...

    @property
    def rollout(self) -> object | None:
        """The one that ended in it."""
        ...

    @property
    def pending(self) -> object | None:
        """A conversation that ended and has no grade yet."""
        ...


@dataclass(slots=True)
class LiveRollouts:
    """The rounds under way, and their conversations."""

    queued: Callable[[], Mapping[str, int]] = dict[str, int]
    """Calls that wait on our side, by tool."""
    elsewhere: Callable[[], StageCounts] = StageCounts
    """Of the conversations that rollout workers run."""
    _rounds: list[Sequence[LiveSlot]] = field(default_factory=list[Sequence[LiveSlot]])
    _conversations: dict[str, LiveConversation] = field(default_factory=dict[str, LiveConversation])

    @contextmanager
    def round(self, slots: Sequence[LiveSlot]) -> Generator[None]:
        """The round lasts as long as this is entered."""
        self._rounds.append(slots)
        try:
            yield
        finally:
            self._rounds = [others for others in self._rounds if others is not slots]

    @contextmanager
    def conversation(self, trace_id: str, conversation: LiveConversation) -> Generator[None]:
        """It is under way as long as this is entered."""
        self._conversations[trace_id] = conversation
        try:
            yield
        finally:
            del self._conversations[trace_id]

    @property
    def has_conversations(self) -> bool:
        """Whether any is under way here; each has a deadline of its own."""
        return bool(self._conversations)

    def stages(self, trace_ids: Iterable[str]) -> StageCounts:
        """Where those of these conversations are that are under way here."""
        under_way = [one for id_ in trace_ids if (one := self._conversations.get(id_)) is not None]
        held_by = Counter(one.holder for one in under_way)
        waiting = sum(one.is_queued for one in under_way if one.holder is Stage.SAMPLER)
        return StageCounts(
            sampling=held_by[Stage.SAMPLER] - waiting,
            waiting_for_engine=waiting,
            calling=Counter(name for one in under_way if one.holder is Stage.TOOL for name in one.calls.unanswered),
            grading=held_by[Stage.GRADER],
        )

    def progress(self) -> RoundProgress | None:
        """Where the rollouts of the earliest step's round are, which the run waits for first; None between rounds."""
        first, *later = sorted(filter(None, self._rounds), key=lambda slots: slots[0].key.step) or [()]
        if not first:
            return None
        key, now = first[0].key, self.stages(self._conversations) + self.elsewhere()
        return RoundProgress(
            step=key.step,
            split=key.split,
            rollouts=len(first),
            ended=_ended(first),
            sampling=now.sampling,
            waiting_for_engine=now.waiting_for_engine,
            calling=now.calling,
            queued={name: count for name, count in self.queued().items() if count},
            grading=now.grading,
            ungraded=sum(slot.rollout is None and slot.pending is not None for slot in first),
            later_rollouts=sum(map(len, later)),
            later_ended=sum(map(_ended, later)),
        )


def _ended(slots: Sequence[LiveSlot]) -> int:
    return sum(slot.rollout is not None for slot in slots)
