"""Tools that seem not to be there: 404, 405 or 410 without an `output` to nearly every call of a round. Pure.

One such answer is the model's mistake like any 4xx. Where nearly all are, the URL is wrong, and no grade that came of
it says anything about the model.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeVar

from rft.core.failure import Failure
from rft.core.grade import Grade
from rft.core.messages import ToolResult
from rft.core.refused_calls import NEARLY_ALL
from rft.core.turns import Turn

FEW_ROLLOUTS = 3
"""What fewer rollouts met may be chance, unless they are more than a round may leave out."""


RECENT = 64
"""Rollouts that are looked back on where there are no rounds."""

BEARABLE_SHARE = 0.25
"""Of rollouts that may meet a tool that is not there, as in a round of training."""


class WithTurns(Protocol):
    """A rollout of tokens or of messages."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def turns(self) -> Sequence[Turn]: ...

    @property
    def outcome(self) -> Grade | Failure | None: ...


R = TypeVar("R", bound=WithTurns)


@dataclass(slots=True)
class _Tally:
    calls: int = 0
    not_found: int = 0
    rollouts: int = 0
    example: Failure | None = None
    statuses: set[int] = field(default_factory=set[int])


def answered_calls(rollout: WithTurns) -> Iterator[ToolResult]:
    """The calls of a rollout that were sent and brought something for the model to read."""
    for turn in rollout.turns:
        yield from (result for result in turn.results if result.attempts > 0 and result.failure is None)


def missing_tools(rollouts: Iterable[WithTurns], *, bearable: float) -> dict[str, Failure]:
    """By name the tools that are missing, with the failure that a rollout which met one really ended in.

    `bearable`: so many rollouts a round may leave out.
    """
    return _missing(map(answered_calls, rollouts), bearable)


def _missing(rollouts: Iterable[Iterable[ToolResult]], bearable: float) -> dict[str, Failure]:
    """Out of the answered calls of each rollout."""
    tallies: dict[str, _Tally] = {}
    for calls in rollouts:
        for name, result in _first_suspicions(calls, tallies).items():
            tallies[name].rollouts += 1
            tallies[name].example = tallies[name].example or result.suspected_failure
    enough = min(FEW_ROLLOUTS, int(bearable) + 1)
    return {
        name: _with_advice(tally.example, tally)
        for name, tally in tallies.items()
        if tally.example is not None and tally.rollouts >= enough and tally.not_found > NEARLY_ALL * tally.calls
    }


@dataclass(slots=True)
class RecentRollouts:
    """The last rollouts of a run that has no rounds, where a tool may be missing from the start or from some day on."""

    _calls: deque[tuple[ToolResult, ...]] = field(default_factory=lambda: deque[tuple[ToolResult, ...]](maxlen=RECENT))
    """The answered ones of each."""

    def add_earlier(self, answered: Iterable[str]) -> None:
        """One that ended in another process. `answered`: each call that a tool answered, by the tool's name."""
        self._calls.append(tuple(ToolResult(call_id="", name=name, output="", attempts=1) for name in answered))

    def add(self, rollout: WithTurns) -> dict[str, Failure]:
        """The tools that are missing by now; as long as few rollouts met one it may be chance."""
        self._calls.append(tuple(answered_calls(rollout)))
        return _missing(self._calls, FEW_ROLLOUTS)

    def at_end(self) -> dict[str, Failure]:
        """The same once no more will come: where there were few, few are enough."""
        return _missing(self._calls, BEARABLE_SHARE * len(self._calls))


def failed_at(rollout: R, missing: Mapping[str, Failure]) -> R | None:
    """The rollout as it really ended, where it was graded although a missing tool answered it; otherwise None."""
    grade = rollout.outcome
    if not isinstance(grade, Grade):
        return None
    failure = next((missing[name] for name in suspected_tools(rollout) if name in missing), None)
    # What judges used in vain stays told.
    return None if failure is None else replace(rollout, outcome=failure.model_copy(update={"usage": grade.usage}))


def suspected_tools(rollout: WithTurns) -> tuple[str, ...]:
    """Tools that answered a call of the rollout as if they were not there, each once."""
    found = (result.name for result in answered_calls(rollout) if result.suspected_failure is not None)
    return tuple(dict.fromkeys(found))


def has_answer_of(rollout: WithTurns, tools: Collection[str]) -> bool:
    """Whether one of these tools answered a call of the rollout in any other way than as if it were not there."""
    return any(result.name in tools and result.suspected_failure is None for result in answered_calls(rollout))


def _first_suspicions(calls: Iterable[ToolResult], tallies: dict[str, _Tally]) -> dict[str, ToolResult]:
    """Count a rollout's calls; by tool name the first answer that looks as if the tool were not there."""
    found: dict[str, ToolResult] = {}
    for result in calls:
        tally = tallies.setdefault(result.name, _Tally())
        tally.calls += 1
        if result.suspected_failure is not None:
            tally.not_found += 1
            tally.statuses.add(result.suspected_failure.status or 0)
            found.setdefault(result.name, result)
    return found


def _with_advice(example: Failure, tally: _Tally) -> Failure:
    statuses = " or ".join(str(status) for status in sorted(tally.statuses))
    message = (
        f"{example.message}. {tally.not_found:,} of {tally.calls:,} calls were answered {statuses} without an `output`:"
        " check its URL. If it is there and means what it says, let it give these replies an `output`."
    )
    return example.model_copy(update={"message": message})
