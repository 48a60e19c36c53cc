"""Which requests are in the batch, in which slot each, and what of them the next pass computes."""

from collections import deque
from collections.abc import Sequence

from rft.engines.drafts import Drafts
from rft.engines.kv_slots import KvSlots, Segment
from rft.engines.slot_fit import LEAST_CONVERSATIONS
from rft.engines.slot_requests import Moved, Running, deliver
from rft.engines.slot_table import Place, SlotTable, shared_prefix

_TOKENS_PER_PASS = 2048
"""New tokens computed at once at most; longer prompts take several passes."""
_WORTH_WAITING_TOKENS = 128
"""The rollouts of a group start at once with the same prompt: one computes it, the others wait and copy."""
_DRAFT_TOKENS = 6
"""Drafted per conversation and pass at most."""
_ROOM_TO_GROW_TOKENS = 64
"""A conversation that begins leaves so much memory to each one that is under way, or it would soon make them wait."""
_ALWAYS_WORTH_TOKENS = 32
"""A pass of so few tokens takes as long as one of a single token: it waits for the weights."""
_DRAFTED_PARAMETERS = 600_000_000
"""Drafted tokens of a pass times the model's parameters: a small model waits for everything but its arithmetic."""


class SlotScheduler:
    """Admits requests in their order as slots and memory allow, and preempts the last one where memory runs out.

    Used in the engine's thread alone.
    """

    def __init__(self, memory: KvSlots, *, budget: int, parameters: int) -> None:
        """`budget`: tokens that memory is touched for; `parameters`: the model's."""
        self._memory, self._table, self._drafts = memory, SlotTable(memory, budget=budget), Drafts()
        self._affordable_drafts = _DRAFTED_PARAMETERS // parameters
        self._waiting: deque[Running] = deque()
        self._running: list[Running] = []
        self._is_full = False
        """Whether one that waits has found no memory: then none behind it takes any."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is asked for."""
        return not self._running and not self._waiting

    def enqueue(self, running: Running) -> None:
        """It waits behind all others."""
        self._waiting.append(running)

    def forget(self) -> None:
        """What is cached is of weights that are gone."""
        self._table.forget()

    def drain(self) -> list[Running]:
        """All requests; none is left, and nothing is cached."""
        drained = [*self._running, *self._waiting]
        self._running.clear()
        self._waiting.clear()
        self._table.forget()
        return drained

    def drop_cancelled(self) -> None:
        """Requests that nobody waits for any more leave the batch and the queue."""
        for running in [running for running in self._running if running.is_cancelled]:
            self.leave(running)
        self._waiting = deque(running for running in self._waiting if not running.is_cancelled)

    def next_pass(self) -> list[tuple[Segment, Running]]:
        """What each request of the batch computes next, drafts included; similar ones are adjacent."""
        self.drop_cancelled()
        self._admit()
        chosen = self._schedule()
        while not self._has_memory(chosen):
            self._preempt(self._running[-1])
            chosen = self._schedule()
        return chosen

    def learn(self, running: Running, *, start: int) -> None:
        """Tokens from `start` on are new: later drafts may follow them."""
        self._drafts.learn(running.tokens, running.own, start=start)

    def leave(self, running: Running) -> None:
        """Its slot is free, and what was computed stays there for the conversation's next turn."""
        self._running.remove(running)
        self._table.release(running.slot, running.version, running.tokens[: running.computed])

    def _schedule(self) -> list[tuple[Segment, Running]]:
        budget = _TOKENS_PER_PASS
        drafts = max(self._affordable_drafts, _ALWAYS_WORTH_TOKENS - len(self._running))
        chosen: list[tuple[Segment, Running]] = []
        for running in self._running:
            length = min(len(running.tokens) - running.computed, budget)
            if not length:
                continue
            if running.computed + length == len(running.tokens):
                self._draft(running, min(drafts, budget - length))
            drafts -= len(running.draft)
            length += len(running.draft)
            budget -= length
            chosen.append((Segment(running.slot, running.computed, length), running))
        chosen.sort(key=lambda pair: (pair[0].kind, pair[0].past + pair[0].length))
        return chosen

    def _has_memory(self, chosen: Sequence[tuple[Segment, Running]]) -> bool:
        """Whether the pass may touch what it writes. The fewest conversations always may."""
        growth = sum(self._memory.grows_by(segment.slot, segment.past + segment.length) for segment, _ in chosen)
        are_fewest = len(self._running) <= LEAST_CONVERSATIONS
        return self._table.make_room(growth, at_any_rate=are_fewest) or are_fewest

    def _preempt(self, running: Running) -> None:
        """Back into the queue, before all others: what was sampled stays, what was computed may have to be done again.

        Its tokens will be the same: they are drawn by their place in the request.
        """
        running.draft = []
        self.leave(running)
        self._waiting.appendleft(running)
        deliver([(running, Moved.TO_QUEUE)])

    def _draft(self, running: Running, at_most: int) -> None:
        """The token that is drawn after the last drafted one still fits the request. Nothing is drafted where not
        every token may follow: what may is known of one at a time."""
        if running.request.constraint is not None:
            running.draft = []
            return
        room = running.request.max_tokens - running.sampled - 1
        running.draft = self._drafts.draft(running.tokens, running.own, at_most=min(at_most, room, _DRAFT_TOKENS))

    def _admit(self) -> None:
        admitted: list[Running] = []
        self._is_full = False
        for _ in range(len(self._waiting)):
            running = self._waiting.popleft()
            place = self._place(running)
            if place is None:
                self._waiting.append(running)
                continue
            running.slot, running.computed = place.slot, place.known_tokens
            running.own = self._drafts.own(running.tokens)
            self._running.append(running)
            admitted.append(running)
        deliver([(running, Moved.TO_BATCH) for running in admitted])

    def _place(self, running: Running) -> Place | None:
        """A slot, or None while none is free or while somebody else computes the same long prompt."""
        place = self._table.resume(running.version, running.tokens)
        if place is not None:
            return place
        leader, shared = self._leader(running)
        if leader is not None and leader.computed < shared:
            return None
        if not self._has_room_for(running):
            return None
        place = self._table.take(running.version, running.tokens)
        if place is not None and leader is not None and shared > place.known_tokens:
            self._memory.copy_prefix(leader.slot, place.slot, shared)
            return Place(place.slot, shared)
        return place

    def _has_room_for(self, running: Running) -> bool:
        """Whether there is memory for its tokens, and for those under way to go on beside it."""
        others = len(self._running)
        wanted = len(running.tokens) + _ROOM_TO_GROW_TOKENS * (others + 1)
        self._is_full = self._is_full or (others >= LEAST_CONVERSATIONS and not self._table.make_room(wanted))
        return not self._is_full

    def _leader(self, running: Running) -> tuple[Running | None, int]:
        """The request in the batch that shares a prefix worth waiting for, and the prefix's length."""
        prompt, opening = running.tokens[:-1], running.tokens[:_WORTH_WAITING_TOKENS]
        if len(prompt) >= _WORTH_WAITING_TOKENS:
            for other in self._running:
                if other.version == running.version and other.tokens[:_WORTH_WAITING_TOKENS] == opening:
                    return other, shared_prefix(prompt, other.request.prompt_ids)
        return None, 0
