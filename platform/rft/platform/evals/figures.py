"""What the output items of a run tell of a model. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import ceil, fsum
from typing import Literal

from rft.core.base import Record
from rft.core.estimates import (
    RewardEstimate,
    best_of_k,
    estimate_reward,
    pass_at_k,
    variance_within_rows,
)


class Measured(Record):
    """What figures need of one output item."""

    row_index: int
    item_digest: str
    """Equal for equal items."""
    status: Literal["pass", "fail", "error"]
    scores: list[float | None]
    """By criterion; None: no score."""
    passes: list[bool | None]
    failure_code: str | None
    prompt_tokens: int
    completion_tokens: int
    turns_without_usage: int = 0
    tool_calls: int
    latency_s: float | None
    """None where nothing was sampled."""
    cost: float | None = None
    """None where nobody tells what tokens cost."""


class CriterionFigures(Record):
    """One criterion over all samples that have its score."""

    testing_criteria: str
    """Its id."""
    score_mean: float | None = None
    """Each row counting the same; None where there is no score."""
    score: RewardEstimate | None
    """The same with its interval at 95%; None where no score tells how far scores spread."""
    passed: RewardEstimate | None
    best_of_k: dict[int, float]
    """Expected highest score among k samples of a row, over the rows that have so many."""
    variance_within_rows: float | None


class Latency(Record):
    """Seconds until an answer was there, tools included, grading not."""

    p50_s: float
    p95_s: float


class RunFigures(Record):
    """A run in numbers. Samples without a verdict are in none of them but `errored` and the tokens."""

    rows: int
    """Items with a verdict."""
    rows_without_verdict: int
    samples: int
    """With a verdict."""
    errored: int
    """Samples without one: a tool, a grader, the model's server or the item failed, not the model."""
    errored_by_code: dict[str, int]
    passed: RewardEstimate | None
    """Share of samples that pass all criteria, each row counting the same, with its interval at 95%: pass@1."""
    pass_at_k: dict[int, float]
    """Chance that one of k samples of a row passes, over the rows that have so many."""
    variance_within_rows: float | None
    """Of passing, mean over rows with two samples or more."""
    criteria: tuple[CriterionFigures, ...]
    prompt_tokens: int
    completion_tokens: int
    turns_without_usage: int = 0
    """Turns whose tokens are in neither figure: the model's server did not tell them."""
    cost: float | None = None
    """Of the model's tokens, at its provider's prices, also without a verdict; None where some is unknown."""
    completion_tokens_per_sample: float | None
    tool_calls_per_sample: float | None
    latency: Latency | None


def run_figures(items: Sequence[Measured], criteria: Sequence[str]) -> RunFigures:
    """The figures of a run. `criteria`: their ids, in the order of `scores`."""
    graded = [item for item in items if item.status != "error"]
    passed = _by_row(graded, passing)
    latencies = sorted(item.latency_s for item in graded if item.latency_s is not None)
    return RunFigures(
        rows=len({item.row_index for item in graded}),
        rows_without_verdict=len({item.row_index for item in items} - {item.row_index for item in graded}),
        samples=len(graded),
        errored=len(items) - len(graded),
        errored_by_code=dict(Counter(item.failure_code or "unknown" for item in items if item.status == "error")),
        passed=estimate_reward(passed),
        pass_at_k=_over_rows(passed, lambda row, k: pass_at_k(round(fsum(row)), len(row), k)),
        variance_within_rows=variance_within_rows(passed),
        criteria=tuple(_of_criterion(items, place, name) for place, name in enumerate(criteria)),
        prompt_tokens=sum(item.prompt_tokens for item in items),
        completion_tokens=sum(item.completion_tokens for item in items),
        turns_without_usage=sum(item.turns_without_usage for item in items),
        cost=_cost(items),
        completion_tokens_per_sample=mean_of([item.completion_tokens for item in graded]) if latencies else None,
        tool_calls_per_sample=mean_of([item.tool_calls for item in graded]) if latencies else None,
        latency=Latency(p50_s=_quantile(latencies, 0.5), p95_s=_quantile(latencies, 0.95)) if latencies else None,
    )


def _of_criterion(items: Sequence[Measured], place: int, name: str) -> CriterionFigures:
    scores = _by_row(items, score_at(place))
    return CriterionFigures(
        testing_criteria=name,
        score_mean=mean_of([mean_of(row) for row in scores]) if scores else None,
        score=estimate_reward(scores),
        passed=estimate_reward(_by_row(items, _verdict(place))),
        best_of_k=_over_rows(scores, best_of_k),
        variance_within_rows=variance_within_rows(scores),
    )


Value = Callable[[Measured], float | None]
"""A number of one sample; None where it has none."""


def passing(item: Measured) -> float | None:
    """1 or 0; None without a verdict."""
    return None if item.status == "error" else float(item.status == "pass")


def score_at(place: int) -> Value:
    """The score of the criterion at this place."""
    return lambda item: item.scores[place]


def _verdict(place: int) -> Value:
    def verdict(item: Measured) -> float | None:
        passed = item.passes[place]
        return None if passed is None else float(passed)

    return verdict


def values_of(items: Iterable[Measured], value: Value) -> list[float]:
    """Those that there are."""
    return [found for item in items if (found := value(item)) is not None]


def by_row(items: Iterable[Measured], value: Value) -> dict[int, list[float]]:
    """The values of each row that has one."""
    rows: dict[int, list[Measured]] = {}
    for item in items:
        rows.setdefault(item.row_index, []).append(item)
    return {row: values for row, samples in rows.items() if (values := values_of(samples, value))}


def _by_row(items: Iterable[Measured], value: Value) -> list[list[float]]:
    return list(by_row(items, value).values())


def _over_rows(rows: Sequence[list[float]], figure: Callable[[list[float], int], float]) -> dict[int, float]:
    """By each power of two that the fullest row has samples for, the mean over rows that have so many."""
    most = max(map(len, rows), default=0)
    found: dict[int, float] = {}
    k = 1
    while k <= most:
        found[k] = mean_of([figure(row, k) for row in rows if len(row) >= k])
        k *= 2
    return found


def _cost(items: Sequence[Measured]) -> float | None:
    costs = [item.cost for item in items if item.prompt_tokens or item.turns_without_usage]
    known = [cost for cost in costs if cost is not None]
    return fsum(known) if known and len(known) == len(costs) else None


def mean_of(values: Sequence[float]) -> float:
    """Of one value or more."""
    return fsum(values) / len(values)


def _quantile(rising: Sequence[float], share: float) -> float:
    """The nearest rank: a value that occurred."""
    return rising[ceil(share * len(rising)) - 1]
