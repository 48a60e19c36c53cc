"""Text for simple regular expressions, as tool schemas hold them: ids, codes, dates. Pure and seeded."""

import string
from random import Random

_MOST_REPEATS = 4
_DIGITS, _WORD = string.digits, string.ascii_letters + string.digits + "_"
_CLASSES = {"d": _DIGITS, "w": _WORD, "s": " "}
_ANY = string.ascii_lowercase + string.digits
_PRINTABLE = "".join(chr(code) for code in range(32, 127))


class UnsupportedPattern(Exception):
    """The pattern uses something that is not simple: look-arounds, back references, flags."""


def text_matching(pattern: str, rng: Random) -> str:
    """A text that fits the whole pattern. Raises UnsupportedPattern."""
    reader = _Reader(pattern, rng)
    text = reader.alternatives()
    if reader.position < len(pattern):
        raise UnsupportedPattern(pattern)
    return text


class _Reader:
    """Reads a pattern from left to right and writes what it asks for."""

    def __init__(self, pattern: str, rng: Random) -> None:
        self._pattern, self._rng = pattern, rng
        self.position = 0

    @property
    def _next(self) -> str:
        return self._pattern[self.position : self.position + 1]

    def alternatives(self) -> str:
        texts = [self._sequence()]
        while self._next == "|":
            self.position += 1
            texts.append(self._sequence())
        return self._rng.choice(texts)

    def _sequence(self) -> str:
        text = ""
        while self._next not in ("", "|", ")"):
            start = self.position
            once = self._one()
            low, high = self._repeats()
            repeats = self._rng.randint(low, high)
            text += once if repeats else ""
            for _ in range(repeats - 1):
                end, self.position = self.position, start
                text += self._one()
                self.position = end
        return text

    def _one(self) -> str:
        character = self._take()
        match character:
            case "^" | "$":
                return ""
            case "(":
                return self._group()
            case "[":
                return self._rng.choice(self._set())
            case ".":
                return self._rng.choice(_ANY)
            case "\\":
                return self._rng.choice(self._escaped())
            case "*" | "+" | "?":
                raise UnsupportedPattern(self._pattern)
            case _:
                return character

    def _group(self) -> str:
        if self._next == "?":
            self.position += 1
            if self._take() != ":":
                raise UnsupportedPattern(self._pattern)
        text = self.alternatives()
        if self._take() != ")":
            raise UnsupportedPattern(self._pattern)
        return text

    def _set(self) -> str:
        is_negated = self._next == "^"
        if is_negated:
            self.position += 1
        members = ""
        while self._next != "]" or not members:
            member = self._take()
            member = self._escaped() if member == "\\" else member
            if self._next == "-" and len(member) == 1 and self._pattern[self.position + 1 : self.position + 2] != "]":
                self.position += 1
                last = self._take()
                last = self._escaped() if last == "\\" else last
                if len(last) != 1 or last < member:
                    raise UnsupportedPattern(self._pattern)
                members += "".join(chr(code) for code in range(ord(member), min(ord(last), ord(member) + 1000) + 1))
            else:
                members += member
        self.position += 1
        if is_negated:
            members = "".join(character for character in _PRINTABLE if character not in members)
        if not members:
            raise UnsupportedPattern(self._pattern)
        return members

    def _escaped(self) -> str:
        character = self._take()
        if character in _CLASSES:
            return _CLASSES[character]
        if character.isalnum():
            raise UnsupportedPattern(self._pattern)
        return character

    def _repeats(self) -> tuple[int, int]:
        match self._next:
            case "*":
                repeats = (0, _MOST_REPEATS)
            case "+":
                repeats = (1, _MOST_REPEATS)
            case "?":
                repeats = (0, 1)
            case "{":
                return self._counted()
            case _:
                return (1, 1)
        self.position += 1
        if self._next in ("?", "+"):
            self.position += 1  # lazy or possessive: of no matter to a text that is to fit
        return repeats

    def _counted(self) -> tuple[int, int]:
        end = self._pattern.find("}", self.position)
        low, comma, high = self._pattern[self.position + 1 : end].partition(",")
        if end < 0 or not low.isdecimal() or (high and not high.isdecimal()):
            raise UnsupportedPattern(self._pattern)
        self.position = end + 1
        least = int(low)
        most = int(high) if high else least + _MOST_REPEATS if comma else least
        if most < least or least > 1000:
            raise UnsupportedPattern(self._pattern)
        return least, min(most, least + 20)

    def _take(self) -> str:
        character = self._next
        if not character:
            raise UnsupportedPattern(self._pattern)
        self.position += 1
        return character
