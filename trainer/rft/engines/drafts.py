"""Drafts of what a conversation samples next, for the engine to check in one forward pass (speculative decoding).

Agents repeat themselves: the frame of a tool call, a path that a search printed. What followed the same few tokens
before is drafted from counts, without a model (n-grams; "prompt lookup decoding"). A draft changes speed and nothing
else: at every position the engine draws with the request's own number for that position, and what it drafted beyond
the first draw that differs is thrown away.
"""

from collections.abc import Sequence
from itertools import pairwise

_LONG, _SHORT, _OWN = 5, 3, 2
"""Tokens that a continuation is looked up by: among all conversations, the same with fewer, within the own one."""
_OWN_LIKELY = 0.8
"""How likely a token follows that followed before in this conversation."""
_LEAST_LIKELY = 0.6
"""A draft ends where it would be right less often than this."""
_OWN_REACH_TOKENS = 2048
_MOST_CONTEXTS = 200_000

Context = tuple[int, ...]
Own = dict[Context, int]
"""What came last after two tokens, within one conversation."""


class _Continuation:
    """What followed a context: one token, and how often it was right since."""

    __slots__ = ("hits", "seen", "token")

    def __init__(self, token: int) -> None:
        self.token, self.hits, self.seen = token, 1, 1

    @property
    def likely(self) -> float:
        return (self.hits + 1) / (self.seen + 2)

    def see(self, token: int) -> None:
        self.seen += 1
        if token == self.token:
            self.hits += 1
        elif 2 * self.hits < self.seen:
            self.token, self.hits, self.seen = token, 1, 2


class Drafts:
    """What all conversations of an engine have sampled of late."""

    def __init__(self) -> None:
        self._continuations: dict[Context, _Continuation] = {}

    @staticmethod
    def own(tokens: Sequence[int]) -> Own:
        """What a conversation says about itself so far."""
        near = tokens[-_OWN_REACH_TOKENS:]
        return dict(zip(pairwise(near), near[2:], strict=False))

    def learn(self, tokens: Sequence[int], own: Own, *, start: int) -> None:
        """The tokens from `start` on were sampled."""
        if len(self._continuations) > _MOST_CONTEXTS:
            self._continuations.clear()
        for end in range(start, len(tokens)):
            token = tokens[end]
            if end >= _OWN:
                own[tuple(tokens[end - _OWN : end])] = token
            for length in (_LONG, _SHORT):
                if end >= length:
                    context = tuple(tokens[end - length : end])
                    known = self._continuations.get(context)
                    if known is None:
                        self._continuations[context] = _Continuation(token)
                    else:
                        known.see(token)

    def draft(self, tokens: Sequence[int], own: Own, *, at_most: int) -> list[int]:
        """What probably follows these tokens; may be empty."""
        context = tuple(tokens[-_LONG:])
        drafted: list[int] = []
        likely = 1.0
        while len(drafted) < at_most:
            found = self._next(context, own)
            if found is None:
                break
            likely *= found[1]
            if likely < _LEAST_LIKELY:
                break
            drafted.append(found[0])
            context = (*context[-_LONG + 1 :], found[0])
        return drafted

    def _next(self, context: Context, own: Own) -> tuple[int, float] | None:
        """The likeliest continuation that is known, and how likely it is."""
        known = self._continuations.get(context) or self._continuations.get(context[-_SHORT:])
        likely = 0.0 if known is None else known.likely
        if likely < _OWN_LIKELY and (token := own.get(context[-_OWN:])) is not None:
            return token, _OWN_LIKELY
        return None if known is None else (known.token, likely)
