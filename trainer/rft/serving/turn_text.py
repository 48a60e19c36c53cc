"""What of a turn can be told before it is complete: text in front of everything that may be a thought or a call.

Pure. What is told is a beginning of what the whole turn is read as, but where a thought closes that nothing had opened.
"""

from collections.abc import Callable, Sequence

from rft.chat.syntax import TurnSyntax
from rft.chat.thinking import ThoughtMarks

_BROKEN = "\ufffd"
_CHARACTER_TOKENS = 4
"""Of one character at most: UTF-8 writes none in more bytes, and no token is less than a byte."""
_SOME_TEXT = "x"
_SEPARATORS = ("\n", " ", "\t", "\u00a0", "\u2003")
"""Between what was told and what follows it, where neither continues the other: the first that completes no stop
sequence. Each sequence is completed by one of them at most, and a request has four."""


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
        self._syntax, self._marks = syntax, syntax.thought_marks
        thought_marks = () if self._marks is None else (self._marks.opening, *self._marks.closings)
        literals = (*syntax.markers, *syntax.control_literals, *thought_marks)
        self._markers = tuple(literal for literal in literals if literal)
        self._stop = tuple(stop)
        self._longest = max(map(len, (*self._markers, *self._stop)))
        self._is_thinking = is_thinking
        self._text = ""
        """What was decoded so far."""
        self._start = 0
        """Where the text begins that may be told: behind a thought."""
        self._has_begun = False
        """It has: `_start` is known."""
        self._told = ""
        self._is_marked = False
        """A marker was found: nothing behind it is told before the end."""
        self.has_thought = False
        """Something stands in the thought in front of what may be told."""
        self.is_stopped = False
        """A stop sequence stands in the text; it and what follows are left out."""

    @property
    def told(self) -> str:
        """All that was told."""
        return self._told

    def add(self, text: str) -> str:
        """More of the turn; returns what can be told on account of it."""
        self._text += text
        self._has_begun = self._has_begun or self._begins()
        if self._is_marked or not self._has_begun:
            return ""
        visible = self._text[self._start :].lstrip()
        if _may_begin_with(visible, self._syntax.call_beginnings):  # The whole may be a call.
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
        separator = next((one for one in _SEPARATORS if not self._stands_across(before, one, content)), "")
        more = separator + self._tell(content, _space_behind(content, turn))
        self._told = before + more
        return more

    def _begins(self) -> bool:
        """Whether the text that may be told begins in what is there; finds where."""
        if self._syntax.answer_opening is not None:
            return self._begins_behind(self._syntax.answer_opening)
        if self._marks is None or not (self._is_thinking or self._may_open_thought(self._marks)):
            return True
        ends = [(end, mark) for mark in self._marks.closings if (end := self._text.find(mark)) >= 0]
        if not ends:
            return False
        end, mark = min(ends)
        self._start = end + len(mark)
        self.has_thought = bool(self._text[:end].lstrip().removeprefix(self._marks.opening).strip())
        return True

    def _may_open_thought(self, marks: ThoughtMarks) -> bool:
        return _may_begin_with(self._text.lstrip(), (marks.opening,))

    def _begins_behind(self, opening: str) -> bool:
        """Behind thoughts alone: what else is said in front of the answer is a part of the content, and told with it at
        the end. So is all where a thought quotes the opening."""
        before, opened, _ = self._text.partition(opening)
        if not opened:
            return False
        read = self._syntax.read(before + opening + _SOME_TEXT, ())
        self._is_marked = read.content != _SOME_TEXT or bool(read.calls)
        self._start, self.has_thought = len(before + opening), bool(read.reasoning)
        return True

    def _safe(self, visible: str) -> str:
        new = self._new()
        found = [position for marker in self._markers if (position := visible.find(marker, new)) >= 0]
        if found:
            self._is_marked = True
            return visible[: min(found)]
        # What may be a marker is no text yet, also where a stop sequence would end in it.
        text = visible[: len(visible) - _open_end(visible, self._markers)]
        if _first_stop(text, self._stop, new) is not None:
            return text
        return visible[: len(visible) - _open_end(visible, (*self._markers, *self._stop))]

    def _new(self) -> int:
        """Before it no literal begins that is not in what was told as a whole, and that has none."""
        return max(0, len(self._told) - self._longest)

    def _stands_across(self, before: str, separator: str, content: str) -> bool:
        """Whether a stop sequence that nobody wrote would stand in what is told, on account of the separator."""
        end = len(before) + len(separator)
        found = (before + separator + content).find
        return any(found(one, max(0, len(before) - len(one) + 1), end + len(one) - 1) >= 0 for one in self._stop)

    def _tell(self, content: str, space: str) -> str:
        """`space`: what stands behind the content; a stop sequence may end in it."""
        text = content + space
        stop = _first_stop(text, self._stop, self._new())
        if stop is not None:
            content, self.is_stopped = text[:stop], True
        more = content[len(self._told) :]
        self._told += more
        return more


def _may_begin_with(text: str, beginnings: Sequence[str]) -> bool:
    """Whether it does, or does so far."""
    return any(text.startswith(beginning[: len(text)]) for beginning in beginnings)


def _space_behind(content: str, turn: str) -> str:
    """White space between the content and the end of its turn; none where something else stands there, as a call."""
    written = turn.rstrip()
    return turn[len(written) :] if written.endswith(content) else ""


def _first_stop(text: str, stops: Sequence[str], start: int) -> int | None:
    """Where the stop sequence begins that ends first, however the text was cut into tokens; None without any."""
    found = [(begin + len(stop), begin) for stop in stops if (begin := text.find(stop, start)) >= 0]
    return min(found)[1] if found else None


def _open_end(text: str, literals: Sequence[str]) -> int:
    """How many characters at the end may be the beginning of a literal."""
    longest = max(map(len, literals), default=1) - 1
    for length in range(min(longest, len(text)), 0, -1):
        if any(literal.startswith(text[-length:]) for literal in literals):
            return length
    return 0
