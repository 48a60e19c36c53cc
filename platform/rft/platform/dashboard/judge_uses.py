"""Which judge models an order, a registered grader or an eval names. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import JsonValue

UserKind = Literal["job", "grader", "eval"]
_JUDGED = ("score_model", "label_model", "ruler")
_UNNAMED = "grader"


@dataclass(frozen=True, slots=True)
class NamedJudge:
    """A grader that asks a judge."""

    model: str
    grader: str
    """Its name in the ledger of a job; a part of several goes by its variable."""


@dataclass(frozen=True, slots=True)
class JudgeUser:
    """What has graders that ask judges."""

    kind: UserKind
    id: str
    name: str | None
    status: str | None
    """Of a job."""
    created_at: datetime
    has_begun: bool
    """A job that has called its grader, or could have."""
    judges: tuple[NamedJudge, ...]


def judges_in(document: JsonValue, variable: str | None = None) -> Iterable[NamedJudge]:
    """The judges of a grader as it is stored, or of a list of them; whatever else is in there is passed over."""
    if isinstance(document, list):
        for grader in document:
            yield from judges_in(grader)
    if not isinstance(document, dict):
        return
    kind, model = document.get("type"), document.get("model")
    if kind == "multi" and isinstance(parts := document.get("graders"), dict):
        for name, part in parts.items():
            yield from judges_in(part, name)
    elif kind in _JUDGED and isinstance(model, str):
        yield NamedJudge(model, variable or str(document.get("name") or _UNNAMED))


def by_model(users: Sequence[JudgeUser]) -> dict[str, list[JudgeUser]]:
    """Who names each model, in the order that they came in."""
    found: dict[str, list[JudgeUser]] = {}
    for user in users:
        for model in dict.fromkeys(judge.model for judge in user.judges):
            found.setdefault(model, []).append(user)
    return found
