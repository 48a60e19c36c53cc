"""How two policies of a job go about the same rows: which calls they make again, and which follow which."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from pydantic import BaseModel

from rft.core.rollout import Split

_MOST_PAIRS = 20
_MOST_REPEATED = 10
_UNREADABLE = "(unreadable)"


class MadeCall(NamedTuple):
    """One call as a policy wrote it. Calls are the same where tool and arguments are, to the letter."""

    tool: str
    digest: str
    """Of the arguments."""
    arguments: str
    """How they begin."""


@dataclass(frozen=True, slots=True)
class CallsOfRollout:
    """The calls that a graded rollout made, in order: those that were refused beyond its budget are none."""

    row_index: int
    trace_id: str
    calls: Sequence[MadeCall]


class CallCounts(BaseModel):
    """Over the graded rollouts of one policy on the rows compared."""

    rollouts: int
    calls: int
    repeated: int
    """Calls that their rollout had made before, with the same arguments."""
    repeating_rollouts: int
    """Rollouts with such a call."""


class CallPair(BaseModel):
    """Two calls, one after the other."""

    first: str
    second: str
    """Names of their tools."""
    is_same: bool
    """The same call once more, arguments and all."""
    before: float
    after: float
    """Per rollout."""


class RepeatedCall(BaseModel):
    """A call that rollouts made again."""

    tool: str
    arguments: str
    """How they begin."""
    before: int
    after: int
    """How often it was made again."""
    trace_id: str
    """Of one of the rollouts that did."""


class CallChangeObject(BaseModel):
    """Two steps of a job, over the rows that have a graded rollout of both."""

    object: Literal["fine_tuning.job.call_change"] = "fine_tuning.job.call_change"
    split: Split
    before: int
    after: int
    """Steps."""
    calls_before: CallCounts
    calls_after: CallCounts
    pairs: list[CallPair]
    """The most frequent ones."""
    repeated: list[RepeatedCall]
    """Those that were made again most often."""


def call_change(
    before: tuple[int, Sequence[CallsOfRollout]], after: tuple[int, Sequence[CallsOfRollout]], split: Split
) -> CallChangeObject:
    """Each side: the step and its graded rollouts. Pure."""
    (first, one), (second, other) = before, after
    rows = {each.row_index for each in one} & {each.row_index for each in other}
    sides = [[each for each in side if each.row_index in rows] for side in (one, other)]
    return CallChangeObject(
        split=split,
        before=first,
        after=second,
        calls_before=_counts(sides[0]),
        calls_after=_counts(sides[1]),
        pairs=_pairs(*sides),
        repeated=_repeated(*sides),
    )


def _counts(rollouts: Sequence[CallsOfRollout]) -> CallCounts:
    repeated = [sum(_made_again(each).values()) for each in rollouts]
    return CallCounts(
        rollouts=len(rollouts),
        calls=sum(len(each.calls) for each in rollouts),
        repeated=sum(repeated),
        repeating_rollouts=sum(count > 0 for count in repeated),
    )


def _made_again(rollout: CallsOfRollout) -> Counter[tuple[str, str]]:
    """How often each call was made beyond the first time, by tool and digest."""
    made = Counter((call.tool, call.digest) for call in rollout.calls)
    return Counter({call: count - 1 for call, count in made.items() if count > 1})


def _pairs(before: Sequence[CallsOfRollout], after: Sequence[CallsOfRollout]) -> list[CallPair]:
    counted = [
        Counter(
            (one.tool, other.tool, (one.tool, one.digest) == (other.tool, other.digest))
            for rollout in side
            for one, other in pairwise(rollout.calls)
        )
        for side in (before, after)
    ]
    pairs = [
        CallPair(
            first=first or _UNREADABLE,
            second=second or _UNREADABLE,
            is_same=is_same,
            before=counted[0][first, second, is_same] / len(before),
            after=counted[1][first, second, is_same] / len(after),
        )
        for first, second, is_same in counted[0].keys() | counted[1].keys()
    ]
    pairs.sort(key=lambda pair: (-pair.before - pair.after, pair.first, pair.second, pair.is_same))
    return pairs[:_MOST_PAIRS]


def _repeated(before: Sequence[CallsOfRollout], after: Sequence[CallsOfRollout]) -> list[RepeatedCall]:
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    seen: dict[tuple[str, str], tuple[str, str]] = {}
    for side, rollouts in enumerate((before, after)):
        for rollout in rollouts:
            again = _made_again(rollout)
            for call in rollout.calls:
                if (call.tool, call.digest) in again:
                    seen[call.tool, call.digest] = call.arguments, rollout.trace_id
            for call, count in again.items():
                counts[call][side] += count
    ordered = sorted(counts.items(), key=lambda entry: (-sum(entry[1]), entry[0]))
    return [
        RepeatedCall(
            tool=tool or _UNREADABLE,
            arguments=seen[tool, digest][0],
            before=counted[0],
            after=counted[1],
            trace_id=seen[tool, digest][1],
        )
        for (tool, digest), counted in ordered[:_MOST_REPEATED]
    ]
