"""Thoughts and the marks around them."""

import re
from dataclasses import dataclass

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class ThoughtMarks:
    """How a syntax marks thoughts."""

    opening: str
    closings: tuple[str, ...]
    """Any of them ends a thought."""
    breaking_off: str
    """What is put behind a thought that went on for too long, so that the model goes on with its answer."""
    has_several: bool = False
    """A turn may have more than one thought; else it may only begin with one. The prompt may have opened the first."""

    def spans(self, text: str, *, is_opened: bool = False) -> list[tuple[int, int]]:
        """Where thoughts stand in a turn, without their marks. `is_opened`: by the prompt."""
        if self.has_several:
            return self._several(text, is_opened=is_opened)
        blank = len(text) - len(text.lstrip())
        if text.startswith(self.opening, blank):
            start = blank + len(self.opening)
            return [(start, self._end(text, start))]
        is_closed = any(closing in text for closing in self.closings)
        return [(0, self._end(text, 0))] if is_opened or is_closed else []

    def is_open_at_end(self, text: str, *, is_opened: bool) -> bool:
        """Whether a turn that stops here stops within a thought."""
        spans = self.spans(text, is_opened=is_opened)
        return bool(spans) and spans[-1][1] == len(text) and not text.endswith(self.closings)

    def _several(self, text: str, *, is_opened: bool) -> list[tuple[int, int]]:
        spans: list[tuple[int, int]] = []
        end = 0
        if is_opened and not text.lstrip().startswith(self.opening):
            end = self._end(text, 0)
            spans.append((0, end))
        while (opened := text.find(self.opening, end)) >= 0:
            start = opened + len(self.opening)
            end = self._end(text, start)
            spans.append((start, end))
        return spans

    def _end(self, text: str, start: int) -> int:
        closed = re.compile("|".join(map(re.escape, self.closings))).search(text, start)
        return len(text) if closed is None else closed.start()


THINK_TAGS = ThoughtMarks(THINK_OPEN, (THINK_CLOSE,), f"{THINK_CLOSE}\n\n")
"""The marks that most families share."""


def split_thinking(
    text: str, *, call_open: str | None = None, is_opened: bool = False, marks: ThoughtMarks = THINK_TAGS
) -> tuple[str, str]:
    """Thoughts without their marks, and what follows them.

    One that never closes leaves nothing. `is_opened`: the prompt is known to have opened the thought; where that never
    closes, a call ends it. Else it may have: a closing mark behind `call_open` is part of a call then. `marks` close in
    one way.
    """
    (closing,) = marks.closings
    if text.lstrip().startswith(marks.opening):
        thought, _, rest = text.partition(closing)
        return thought.lstrip().removeprefix(marks.opening).strip(), rest
    thought, closed, rest = text.partition(closing)
    if closed and (is_opened or call_open is None or call_open not in thought):
        return thought.strip(), rest
    if not is_opened:
        return "", text
    thought, called, rest = text.partition(call_open) if call_open is not None else (text, "", "")
    return thought.strip(), called + rest
