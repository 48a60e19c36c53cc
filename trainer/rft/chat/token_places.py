"""Which token of a turn reaches which place in its text."""

from bisect import bisect_left
from collections.abc import Callable, Sequence

_STRIDE = 64
_BROKEN = "\ufffd"


class TokenPlaces:
    """Decodes every token a few times only, however many places are asked for and however long the turn is."""

    def __init__(self, token_ids: Sequence[int], decode: Callable[[Sequence[int]], str]) -> None:
        self._ids, self._decode = token_ids, decode
        self._reached = [0]
        """How far the first 0, 64, 128 ... tokens reach."""
        for count in range(_STRIDE, len(token_ids) + _STRIDE, _STRIDE):
            self._reached.append(self._reach(count))

    def tokens_to(self, place: int) -> int:
        """The fewest leading tokens whose text reaches to a place in the text of all."""
        known = bisect_left(self._reached, place)
        counts = range(len(self._ids))
        return bisect_left(
            counts, place, max(0, known - 1) * _STRIDE, min(known * _STRIDE, len(counts)), key=self._reach
        )

    def _reach(self, count: int) -> int:
        """How far so many leading tokens reach. Tokens are decoded with some before them, as their spaces need."""
        known = max(0, count - 1) // _STRIDE
        start, context = known * _STRIDE, max(0, known - 1) * _STRIDE
        return self._reached[known] + self._length(context, count) - self._length(context, start)

    def _length(self, start: int, end: int) -> int:
        """Without a character at the end that is not whole."""
        text = self._decode(self._ids[start:end])
        return len(text) - text.endswith(_BROKEN)
