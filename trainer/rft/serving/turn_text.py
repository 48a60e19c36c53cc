"""What of a turn can be told before it is complete: text in front of everything that may be a thought or a call.

Pure. What is told is a beginning of what the whole turn is read as, but where a thought closes that nothing had opened.
"""

from collections.abc import Callable, Sequence

from rft.chat.syntax import TurnSyntax
from rft.chat.thinking import THINK_CLOSE, THINK_OPEN

_BROKEN = "\ufffd"
_CHARACTER_TOKENS = 4
"""Of one character at most: UTF-8 writes none in more bytes, and no token is less than a byte."""


class IncrementalText:
    """Decodes tokens as they come: each once, with as few of those before it as its spaces need."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._ids: list[int] = []
        self._told_from = self._told_to = 0

    def add(self, token_ids: Sequence[int]) -> str:
        """The text that is complete now and was not before. Half a character waits for its other half."""
        self._ids += token_ids
        before, end = self._decode(self._ids[self._told_from : self._told_to]), len(self._ids)
        now = self._decode(self._ids[self._told_from :])
        if now.endswith(_BROKEN):
            # What is no character may stay none for thousands of tokens: what stands before the last few is complete.
            end, now = self._complete(now)
        if len(now) <= len(before):
            return ""
        self._told_from, self._told_to = self._told_to, end
        return now[len(before) :]

    def _complete(self, whole: str) -> tuple[int, str]:
        """Where `whole` can be cut without cutting a character, and what it is up to there."""
        for back in range(_CHARACTER_TOKENS, 2 * _CHARACTER_TOKENS):  # Of so many cuts one is between two characters.
            end = max(self._told_to, len(self._ids) - back)
            now = self._decode(self._ids[self._told_from : end])
            if whole.startswith(now):
                return end, now
        return self._told_to, ""


class TurnText:
    """The text of one turn as far as it can be told."""

    def __init__(self, syntax: TurnSyntax, stop: Sequence[str], *, is_thinking: bool) -> None:
        """`is_thinking`: the prompt has opened a thought."""
        literals = (*syntax.markers, *syntax.control_literals, THINK_OPEN, THINK_CLOSE)
        self._markers = tuple(literal for literal in literals if literal)
        self._call_beginnings = syntax.call_beginnings
        self._stop = tuple(stop)
        self._longest = max(map(len, (*self._markers, *self._stop)))
        self._is_thinking = is_thinking
        self._text = ""
        """What was decoded so far."""
        self._start = 0
        """Where the text begins that may be told: behind a thought."""
        self._told = ""
        self._is_marked = False
        """A marker was found: nothing behind it is told before the end."""
        self.is_stopped = False
        """A stop sequence stands in the text; it and what follows are left out."""

    @property
    def told(self) -> str:
        """All that was told."""
        return self._told

    @property
    def has_thought(self) -> bool:
        """Something stands in the thought in front of what may be told."""
        thought = self._text[: self._start].removesuffix(THINK_CLOSE)
        return bool(thought.lstrip().removeprefix(THINK_OPEN).strip())

    def add(self, text: str) -> str:
        """More of the turn; returns what can be told on account of it."""
        self._text += text
        if self._is_marked or not self._is_past_thought():
            return ""
        visible = self._text[self._start :].lstrip()
        if self._may_be_a_call(visible):
            return ""
        safe = self._safe(visible)
        content = safe.rstrip()
        return self._tell(content, safe[len(content) :])

    def end(self, content: str, turn: str) -> str:
        """The turn is complete and was read; returns what is left to tell of its content. `turn`: all of its text.

        Where a thought closes that nothing had opened, all before it was told as text: the content follows as a whole.
        """
        if self.is_stopped or not content:
            return ""
        if content.startswith(self._told):
            return self._tell(content, _space_behind(content, turn))
        before, self._told = self._told, ""
        more = f"\n{self._tell(content, _space_behind(content, turn))}"
        self._told = before + more
        return more

    def _may_be_a_call(self, visible: str) -> bool:
        """As a whole."""
        return any(visible.startswith(begun[: len(visible)]) for begun in self._call_beginnings)

    def _is_past_thought(self) -> bool:
        if not self._is_thinking:
            beginning = self._text.lstrip()
            if THINK_OPEN.startswith(beginning[: len(THINK_OPEN)]):
                if len(beginning) < len(THINK_OPEN):
                    return False
                self._is_thinking = True
        if self._is_thinking:
            _, closed, _ = self._text.partition(THINK_CLOSE)
            if not closed:
                return False
            self._start, self._is_thinking = self._text.index(THINK_CLOSE) + len(THINK_CLOSE), False
        return True

    def _safe(self, visible: str) -> str:
        new = self._new()
        found = [position for marker in self._markers if (position := visible.find(marker, new)) >= 0]
        if found:
            self._is_marked = True
            visible = visible[: min(found)]
        else:
            visible = visible[: len(visible) - _open_end(visible, (*self._markers, *self._stop))]
        return visible

    def _new(self) -> int:
        """Before it no literal begins that is not in what was told as a whole, and that has none."""
        return max(0, len(self._told) - self._longest)

    def _tell(self, content: str, space: str) -> str:
        """`space`: what stands behind the content; a stop sequence may end in it."""
        text = content + space
        found = [position for stop in self._stop if (position := text.find(stop, self._new())) >= 0]
        if found:
            content, self.is_stopped = text[: min(found)], True
        more = content[len(self._told) :]
        self._told += more
        return more


def _space_behind(content: str, turn: str) -> str:
    """White space between the content and the end of its turn; none where something else stands there, as a call."""
    written = turn.rstrip()
    return turn[len(written) :] if written.endswith(content) else ""


def _open_end(text: str, literals: Sequence[str]) -> int:
    """How many characters at the end may be the beginning of a literal."""
    longest = max(map(len, literals), default=1) - 1
    for length in range(min(longest, len(text)), 0, -1):
        if any(literal.startswith(text[-length:]) for literal in literals):
            return length
    return 0
