"""What the tools answered in a round of rollouts, where the customer should know of it. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rft.core.base import JsonObject
from rft.core.events import Notice
from rft.core.group import Group
from rft.core.messages import CallMistake
from rft.core.refused_calls import NEARLY_ALL, refusal_advice, refused_status
from rft.core.rollout import Rollout
from rft.rollouts.missing_tools import answered_calls
from rft.rollouts.stats import MadeCall, made_calls

_KINDS = 3
"""So many kinds of mistakes are named."""
_HTTP = "http_"


@dataclass(frozen=True, slots=True)
class FailedCalls:
    """Nearly every call of a round came to nothing."""

    message: str
    """A sentence with counts."""
    data: JsonObject


def refused_calls(groups: Sequence[Group], *, told: Sequence[str], step: int) -> tuple[tuple[Notice, ...], list[str]]:
    """Tools that answered 4xx to nearly every call, as notices, and whom they are about; `told` are left out."""
    answers: dict[str, Counter[int]] = defaultdict(Counter)
    for rollout in _rollouts(groups):
        for result in answered_calls(rollout):
            answers[result.name][result.status or 0] += 1
    notices, about = list[Notice](), list[str]()
    for name, by_status in sorted(answers.items()):
        refused = Counter({status: count for status, count in by_status.items() if 400 <= status <= 499})
        calls = by_status.total()
        status = refused_status(refused, calls)
        if status is not None and (whom := f"{name} {status}") not in told:
            notices.append(_refused(name, status, refused, calls, step))
            about.append(whom)
    return tuple(notices), about


def _refused(name: str, status: int, refused: Counter[int], calls: int, step: int) -> Notice:
    return Notice(
        level="warn",
        code="refused_calls",
        message=(
            f"{refusal_advice(name, status)}. Of {calls:,} calls in step {step},"
            f" {refused.total():,} were answered 4xx. A policy may begin with wrong arguments only; then this passes."
        ),
        data={
            "tool": name,
            "status": status,
            "step": step,
            "calls": calls,
            "refused": refused.total(),
            "refused_by_status": {str(found): count for found, count in sorted(refused.items())},
        },
    )


def nearly_all_failed(groups: Sequence[Group]) -> FailedCalls | None:
    """What became of the round's calls, where nearly all of them were mistakes; None otherwise."""
    made = [call for rollout in _rollouts(groups) for call in made_calls(rollout)]
    mistakes = [call for call in made if call.error_code is not None]
    if not made or len(mistakes) <= NEARLY_ALL * len(made):
        return None
    kinds = Counter((call.label, call.error_code or "") for call in mistakes).most_common(_KINDS)
    seen = "; ".join(f"{count:,} {_summary(label, code, mistakes)}" for (label, code), count in kinds)
    by_code = Counter(call.error_code or "" for call in mistakes)
    return FailedCalls(
        message=f"nearly every tool call came to nothing: of {len(made):,} calls in the last step, {seen}.",
        data={"calls": len(made), "failed_calls": len(mistakes), "errors_by_code": dict(by_code)},
    )


def _summary(label: str, code: str, mistakes: Iterable[MadeCall]) -> str:
    if code == CallMistake.UNKNOWN_TOOL:
        (name, _), *_ = Counter(
            made.call.name for made in mistakes if made.error_code == CallMistake.UNKNOWN_TOOL
        ).most_common(1)
        return f"named a tool that their row does not describe, most often {name[:100]!r}"
    if code == CallMistake.UNREADABLE_CALL:
        return "could not be read"
    if code.startswith(_HTTP):
        return f"were answered {code.removeprefix(_HTTP)} by {label}"
    return f"of {label} ended with {code}"


def _rollouts(groups: Sequence[Group]) -> list[Rollout]:
    return [rollout for group in groups for rollout in group.rollouts]
