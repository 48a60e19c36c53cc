"""Which slot a conversation gets, and which of its tokens are cached there."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rft.engines.kv_slots import KvSlots

_WORTH_COPYING_TOKENS = 16
"""A shared prefix shorter than this is computed again."""


@dataclass(frozen=True, slots=True)
class Place:
    """A slot, and how many leading tokens of the conversation are in it already."""

    slot: int
    known_tokens: int


@dataclass(frozen=True, slots=True)
class _Held:
    """Tokens whose keys and values a policy version computed."""

    version: int
    tokens: NDArray[np.int64]


_NOTHING = _Held(0, np.empty(0, dtype=np.int64))


class SlotTable:
    """Free slots keep their cached tokens until another conversation needs slot or memory, the longest unused first."""

    def __init__(self, memory: KvSlots, *, budget: int) -> None:
        """`budget`: tokens that memory is touched for, in all slots."""
        self._memory, self._budget = memory, budget
        self._free: dict[int, _Held] = {}
        """What each free slot holds, the longest unused first."""
        self.forget()

    def forget(self) -> None:
        """All slots are free and hold nothing."""
        self._free = dict.fromkeys(range(self._memory.slots), _NOTHING)

    def make_room(self, tokens: int, *, at_any_rate: bool = False) -> bool:
        """Whether so many more tokens fit the budget: free slots forget what they hold as far as need be.

        None forgets anything where that would not be enough, unless `at_any_rate`.
        """
        excess = self._memory.touched_tokens + tokens - self._budget
        if excess <= 0:
            return True
        is_enough = sum(map(self._memory.touched, self._free)) >= excess
        for slot in list(self._free) if is_enough or at_any_rate else ():
            excess -= self._memory.touched(slot)
            self._memory.evict(slot)
            self._free[slot] = _NOTHING
            if excess <= 0:
                break
        return is_enough

    def resume(self, version: int, tokens: Sequence[int]) -> Place | None:
        """The free slot that holds the beginning of this conversation and nothing else; None when there is none.

        At least the last token is left to compute: its logits are what is wanted.
        """
        wanted = np.array(tokens[:-1], dtype=np.int64)
        for slot in reversed(self._free):
            held = self._free[slot].tokens
            if (
                self._free[slot].version == version
                and 0 < len(held) <= len(wanted)
                and held[-1] == wanted[len(held) - 1]
                and (held == wanted[: len(held)]).all()
            ):
                del self._free[slot]
                return Place(slot, len(held))
        return None

    def take(self, version: int, tokens: Sequence[int]) -> Place | None:
        """The slot longest unused, with what others know of this conversation's beginning; None when none is free."""
        if not self._free:
            return None
        wanted = np.array(tokens[:-1], dtype=np.int64)
        known = ((slot, held.tokens) for slot, held in self._free.items() if held.version == version)
        shares = ((slot, _shared(tokens, wanted)) for slot, tokens in known if len(tokens))
        source, shared = max(shares, key=_by_length, default=(0, 0))
        target = next(iter(self._free))
        if shared < _WORTH_COPYING_TOKENS:
            shared = 0
        elif source != target:
            self._memory.copy_prefix(source, target, shared)
        del self._free[target]
        return Place(target, shared)

    def release(self, slot: int, version: int, tokens: Sequence[int]) -> None:
        """The slot is free and holds these tokens, as this version computed them."""
        self._free[slot] = _Held(version, np.array(tokens, dtype=np.int64))


def _by_length(pair: tuple[int, int]) -> int:
    return pair[1]


def shared_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """How many leading tokens two conversations have in common."""
    return _shared(np.array(left, dtype=np.int64), np.array(right, dtype=np.int64))


def _shared(held: NDArray[np.int64], wanted: NDArray[np.int64]) -> int:
    length = min(len(held), len(wanted))
    differs = held[:length] != wanted[:length]
    return int(differs.argmax()) if differs.any() else length
