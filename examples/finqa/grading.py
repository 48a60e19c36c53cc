"""Grades one number (or yes/no) against a FinQA answer, with partial credit."""

import re

# Atomic, so that what the number is part of takes all of it or nothing: of `12.9th` there is no 12.
# A unit against the number is read as one behind a space is: `12.9M` like `12.9 million`.
NUMBER = re.compile(
    r"(?<![\w.])([-+]?\$?\s?(?>(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?))"
    r"(?:[kmbx]|mm|bn|bps?|pp)?(?!\w)",
    re.IGNORECASE,
)
CLOSING = re.compile(r"%*\)")
LABEL = re.compile(r"answer[\s*_]*:", re.IGNORECASE)


def numbers_in(text: str) -> list[float]:
    """Every number in the text: `$ 1,234.5`, `-3.2%`, `.5`, `12.9M`; `(12.5)` is minus 12.5, as accountants write."""
    found: list[float] = []
    for match in NUMBER.finditer(text):
        digits = re.sub(r"[\s$,]", "", match[1])
        is_bracketed = (
            text[max(0, match.start() - 1) : match.start()] == "(" and CLOSING.match(text, match.end()) is not None
        )
        found.append(-float(digits) if is_bracketed else float(digits))
    return found


def relative_error(answer: float, expected: float) -> float:
    """Smallest relative error, reading the answer as it stands, as a percentage or as a fraction."""
    gap = min(abs(answer - expected), abs(answer / 100 - expected), abs(answer * 100 - expected))
    return gap / max(abs(expected), 1e-9)


def credit(final_text: str, expected: float | str) -> float:
    """1 within 0.2 %, 0.5 within 1 %, else 0. The answer is all that follows the last `Answer:`, or the whole text.

    Several numbers in the answer are no answer, nor are several answers: the last one counts, right or wrong.
    """
    answer = LABEL.split(final_text)[-1]
    if isinstance(expected, str):
        return float(re.sub(r"[^a-z]", "", answer.lower()) == expected)
    numbers = numbers_in(answer)
    if len(numbers) != 1:
        return 0.0
    error = relative_error(numbers[0], expected)
    return 1.0 if error <= 0.002 else 0.5 if error <= 0.01 else 0.0
