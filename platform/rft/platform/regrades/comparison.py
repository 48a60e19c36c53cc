"""How two gradings of the same rollouts differ. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, sqrt

from pydantic import Field

from rft.core.base import Record
from rft.core.grade import TokenUsage, total_usage
from rft.core.group import without_rounding

_SAMPLES = 3
"""So many different errors are shown."""


@dataclass(frozen=True, slots=True)
class Regraded:
    """One rollout under both graders; None where a grader gave no score."""

    trace_id: str
    before: float | None
    after: float | None
    failure_code: str | None = None
    """Why there is no score after."""
    usage: Mapping[str, TokenUsage] = field(default_factory=dict[str, TokenUsage])
    """Tokens that judge models used for it, by model name."""
    errors: tuple[str, ...] = ()
    """What cost it its score, under the contract's names."""
    error_details: str | None = None
    """That in words."""
    is_unfit: bool = False
    """Its row does not fit the grader, and neither endpoint nor judge was asked: it says nothing of others."""


class RolloutChange(Record):
    """One rollout's rewards."""

    trace_id: str
    before: float | None
    after: float | None
    failure_code: str | None


class RegradeReport(Record):
    """What another grader changes."""

    n: int
    """Rollouts that were graded again."""
    failures: int
    """Those the new grader gave no score."""
    failures_by_code: dict[str, int]
    errors_by_name: dict[str, int] = Field(default_factory=dict)
    """Rollouts with a score by what cost them a better one, under the contract's names, e.g. `sample_parse_error`."""
    error_samples: tuple[str, ...] = ()
    """A few of these in words, with tracebacks of python graders."""
    reward_mean_before: float | None
    """Over rollouts with both scores, like every other figure below."""
    reward_mean_after: float | None
    groups: int
    groups_ranked: int
    """Groups in which both graders tell rollouts apart."""
    rank_correlation: float | None
    """Spearman's, mean over `groups_ranked`; None where there are none."""
    best_changed_share: float | None
    """Share of groups of two or more in which no best rollout before is one of the best after."""
    signal_share_before: float | None
    """Share of groups of two or more whose rewards are not all equal: only those train the policy."""
    signal_share_after: float | None
    judge_usage: dict[str, TokenUsage] = Field(default_factory=dict)
    """Tokens that judge models used, by model name, also where no score came of it."""
    rollouts: tuple[RolloutChange, ...]


def compare(groups: Sequence[Sequence[Regraded]]) -> RegradeReport:
    """The report on all groups."""
    everything = [rollout for group in groups for rollout in group]
    both = [_pairs(group) for group in groups]
    whole = [pairs for pairs in both if len(pairs) >= 2]
    ranked = [(without_rounding(old), without_rounding(new)) for old, new in map(_columns, whole)]
    correlations = [correlation for columns in ranked if (correlation := spearman(*columns)) is not None]
    before, after = _columns([pair for pairs in both for pair in pairs])
    failed = [rollout for rollout in everything if rollout.after is None]
    return RegradeReport(
        n=len(everything),
        failures=len(failed),
        failures_by_code=dict(Counter(rollout.failure_code or "unknown" for rollout in failed)),
        errors_by_name=dict(Counter(name for rollout in everything for name in rollout.errors)),
        error_samples=_most_frequent(rollout.error_details for rollout in everything if rollout.error_details),
        reward_mean_before=_mean(before),
        reward_mean_after=_mean(after),
        groups=len(groups),
        groups_ranked=len(correlations),
        rank_correlation=_mean(correlations),
        best_changed_share=_share([has_other_best(*columns) for columns in ranked]),
        signal_share_before=_share([len(set(old)) > 1 for old, _ in ranked]),
        signal_share_after=_share([len(set(new)) > 1 for _, new in ranked]),
        judge_usage=total_usage(rollout.usage for rollout in everything),
        rollouts=tuple(
            RolloutChange(
                trace_id=rollout.trace_id,
                before=rollout.before,
                after=rollout.after,
                failure_code=rollout.failure_code,
            )
            for rollout in everything
        ),
    )


def _most_frequent(details: Iterable[str]) -> tuple[str, ...]:
    return tuple(text for text, _ in Counter(details).most_common(_SAMPLES))


def ranks(values: Sequence[float]) -> list[float]:
    """The place of each value from 1; equal values share the mean of their places."""
    order = sorted(range(len(values)), key=values.__getitem__)
    places = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for position in range(start, end + 1):
            places[order[position]] = (start + end) / 2 + 1
        start = end + 1
    return places


def spearman(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Rank correlation in [-1, 1]; None where either side has no two different values."""
    if len(set(before)) < 2 or len(set(after)) < 2:
        return None
    middle = (len(before) + 1) / 2
    left, right = ([place - middle for place in ranks(side)] for side in (before, after))
    together = fsum(x * y for x, y in zip(left, right, strict=True))
    spread = sqrt(fsum(x * x for x in left) * fsum(y * y for y in right))
    return max(-1.0, min(1.0, together / spread))


def has_other_best(before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether none of the best before is among the best after."""
    return not _best(before) & _best(after)


def _best(values: Sequence[float]) -> set[int]:
    highest = max(values)
    return {place for place, value in enumerate(values) if value == highest}


def _pairs(group: Sequence[Regraded]) -> list[tuple[float, float]]:
    return [
        (rollout.before, rollout.after) for rollout in group if rollout.before is not None and rollout.after is not None
    ]


def _columns(pairs: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [before for before, _ in pairs], [after for _, after in pairs]


def _mean(values: Sequence[float]) -> float | None:
    # Divided first: a sum of the largest numbers is none.
    return fsum(value / len(values) for value in values) if values else None


def _share(flags: Sequence[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None
