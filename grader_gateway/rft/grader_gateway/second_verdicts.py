"""Whether a judge that names its verdict once more gives another one. In doubt it does: its answer is asked for again,
and no reward is made of it. Pure."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_SIGN = r"[-+\u2212\u2013\u2014]"
_NUMBER = rf"(?P<sign>{_SIGN}\s?)?(?P<number>(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)"
_SHARE = r"(?:\s*(?P<percent>%|per\s?cent\b)|\s*(?:/|\b(?:out\s)?of\b)\s*(?P<whole>\d+(?:\.\d+)?))?"
_INTRODUCED = (
    r"(?:[\s'\"`*_~=$\\({\[]|\b(?:about|approximately|approx\.|around|roughly|exactly|only|just|boxed)(?![^\W_]))*"
)
"""What may stand before a verdict and changes nothing of it. Behind any other word a number may be another one."""
_UNCERTAIN = "|".join(
    (
        r"_*[^\W_]|[%\u2030+\u2212\u2013-]",  # It goes on.
        r"[^\w\s]+\d",  # A comma of decimals, a range, a fraction of LaTeX.
        r"\s*(?:[^\w\s(.,;]+|or|to|in)\s*[-+.]?\d",  # Another number.
        r"\s*(?:[/?\u00f7]|of\b|out\b|or\b|per\s?cent\b)",
    )
)
_REPEATED = re.compile(rf"{_INTRODUCED}{_NUMBER}{_SHARE}(?!{_UNCERTAIN})", re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_NEAR_CHARS = 32
"""A number that stands further from the name of the verdict belongs to an explanation in words."""
_LINE_CHARS = 200
_WORD = re.compile(r"(?:[^\w\n]|_)*[^\W_]")
_GOES_ON = re.compile(r"[\w+\u2212\u2013-]|\s*(?:[/?]|or\b)")
"""A- is not A, nor is pass-with-notes pass."""


@dataclass(frozen=True, slots=True)
class PossibleVerdicts:
    """What a judge was asked to choose from."""

    labels: Sequence[str] = ()
    """Where they are texts."""
    highest: float | None = None
    """Where they are numbers: the end of their scale, if it is known."""


def is_another_number(text: str, at: int, number: float, highest: float | None) -> bool:
    """Whether the line from `at` on begins with a number that is not surely this one; words explain it."""
    line = text[at : at + _LINE_CHARS].partition("\n")[0]
    if not _DIGIT.search(line, 0, _NEAR_CHARS):
        return False
    told = _REPEATED.match(line)
    return told is None or not any(math.isclose(one, number, abs_tol=1e-9) for one in _meant_by(told, highest))


def is_another_label(text: str, at: int, label: str, labels: Sequence[str]) -> bool:
    """Whether the line from `at` on says anything else than this label, such as a longer one of `labels`."""
    if _begins_with(label, text, at) and not _GOES_ON.match(text, at + len(label)):
        return any(len(other) > len(label) and _begins_with(other, text, at) for other in labels)
    return _WORD.match(text, at) is not None


def _begins_with(label: str, text: str, at: int) -> bool:
    return text[at : at + len(label)].casefold() == label.casefold()


def _meant_by(told: re.Match[str], highest: float | None) -> Iterator[float]:
    """What a written number may mean: a share of the scale, or as it stands. The last is a guess beside a whole that
    the scale does not end with: 4/5 on a scale to 10 is 8."""
    sign = -1.0 if told["sign"] and told["sign"][0] != "+" else 1.0
    number = sign * float(told["number"])
    whole = 100.0 if told["percent"] else float(told["whole"] or 0)
    if whole and (highest is None or highest > 0):
        yield number / whole * (1.0 if highest is None else highest)
    is_of_scale = whole in (0, highest)
    if is_of_scale or (highest is None and number > 1):
        yield number
