"""What the order's own code, a python grader or a formula, raised on the answers of a round of rollouts. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from rft.core.events import Notice
from rft.core.grade import CODE_ERRORS, Grade
from rft.core.group import Group

TOLD_ABOVE = 0.1
"""Share of a round's grades that code errors made, above which the customer is told."""
BROKEN_ABOVE = 0.5
"""Share above which the grader is broken: a policy must not learn from such zeros."""
_SAMPLES = 3
"""So many different errors are shown."""
_SAMPLE_CHARS = 1_500


@dataclass(frozen=True, slots=True)
class CodeErrors:
    """The grades of a round that the order's own code left to the contract."""

    grader: str
    grades: int
    errors: int
    by_name: dict[str, int]
    """Errors by the contract's name."""
    samples: tuple[str, ...]
    """The most frequent ones in words, with tracebacks."""

    @property
    def is_worth_telling(self) -> bool:
        """Whether there are many."""
        return self.errors > TOLD_ABOVE * self.grades

    @property
    def is_broken(self) -> bool:
        """Whether there are too many to learn from what is left."""
        return self.errors > BROKEN_ABOVE * self.grades

    def notice(self, what: str, *, step: int) -> Notice:
        """`what` is the round, in words."""
        counts: dict[str, JsonValue] = {**self.by_name}
        return Notice(
            level="warn",
            code="grader_code_errors",
            message=f"{self.message(what)} They are graded 0, or `invalid_grade`. For example: {self.samples[0]}",
            data={
                "step": step,
                "grader": self.grader,
                "grades": self.grades,
                "errors": self.errors,
                "errors_by_name": counts,
                "samples": [*self.samples],
            },
        )

    def message(self, what: str) -> str:
        """How many, in a sentence."""
        return (
            f"The code of grader {self.grader!r} came to no score on {self.errors} of {self.grades} answers of {what}."
        )


def code_errors(groups: Sequence[Group]) -> CodeErrors | None:
    """What went wrong in a round; None where nothing did."""
    outcomes = [rollout.outcome for group in groups for rollout in group.rollouts]
    grades = [outcome for outcome in outcomes if isinstance(outcome, Grade)]
    wrong = [grade for grade in grades if CODE_ERRORS.intersection(grade.model_errors)]
    if not wrong:
        return None
    names = Counter(name for grade in wrong for name in grade.model_errors if name in CODE_ERRORS)
    details = Counter(_shortened(grade.error_details or "no details") for grade in wrong)
    return CodeErrors(
        grader=wrong[0].grader,
        grades=len(grades),
        errors=len(wrong),
        by_name=dict(names),
        samples=tuple(_different([text for text, _ in details.most_common()])),
    )


def _different(texts: Sequence[str]) -> list[str]:
    """A few that differ in more than their values: by where they were raised."""
    by_place: dict[str, str] = {}
    for text in texts:
        by_place.setdefault(_place(text), text)
    return list(by_place.values())[:_SAMPLES]


def _place(text: str) -> str:
    """The error's kind, and where it was raised."""
    frames = [line for line in text.splitlines() if line.lstrip().startswith("File ")]
    return "\n".join((text.partition(":")[0], *frames))


def _shortened(text: str) -> str:
    if len(text) <= _SAMPLE_CHARS:
        return text
    half = _SAMPLE_CHARS // 2
    return f"{text[:half]}\n[...]\n{text[-half:]}"
