"""What the output items of a run tell of a model, and of two models on the same items. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import ceil, fsum
from typing import Literal

from rft.core.base import Record
from rft.core.estimates import (
    RewardDifference,
    RewardEstimate,
    best_of_k,
    estimate_difference,
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


class CriterionComparison(Record):
    """One criterion's scores, row by row."""

    testing_criteria: str
    score: RewardDifference | None
    """This run's less the other's."""


class Comparison(Record):
    """Two runs on the items that both have a verdict of."""

    rows: int
    """Compared."""
    passed: RewardDifference | None
    """This run's share of passing samples less the other's, with its paired interval at 95%."""
    criteria: tuple[CriterionComparison, ...]
    only_here: tuple[int, ...]
    """Items that the other run does not have, by `datasource_item_id`."""
    only_there: tuple[int, ...]
    without_verdict: tuple[int, ...]
    """Items of both, by this run's `datasource_item_id`, where one of them has no sample with a verdict."""


def run_figures(items: Sequence[Measured], criteria: Sequence[str]) -> RunFigures:
    """The figures of a run. `criteria`: their ids, in the order of `scores`."""
    graded = [item for item in items if item.status != "error"]
    passing = _by_row(graded, _passing)
    latencies = sorted(item.latency_s for item in graded if item.latency_s is not None)
    return RunFigures(
        rows=len({item.row_index for item in graded}),
        rows_without_verdict=len({item.row_index for item in items} - {item.row_index for item in graded}),
        samples=len(graded),
        errored=len(items) - len(graded),
        errored_by_code=dict(Counter(item.failure_code or "unknown" for item in items if item.status == "error")),
        passed=estimate_reward(passing),
        pass_at_k=_over_rows(passing, lambda row, k: pass_at_k(round(fsum(row)), len(row), k)),
        variance_within_rows=variance_within_rows(passing),
        criteria=tuple(_of_criterion(items, place, name) for place, name in enumerate(criteria)),
        prompt_tokens=sum(item.prompt_tokens for item in items),
        completion_tokens=sum(item.completion_tokens for item in items),
        turns_without_usage=sum(item.turns_without_usage for item in items),
        cost=_cost(items),
        completion_tokens_per_sample=_mean([item.completion_tokens for item in graded]) if latencies else None,
        tool_calls_per_sample=_mean([item.tool_calls for item in graded]) if latencies else None,
        latency=Latency(p50_s=_quantile(latencies, 0.5), p95_s=_quantile(latencies, 0.95)) if latencies else None,
    )


def compare(here: Sequence[Measured], there: Sequence[Measured], criteria: Sequence[str]) -> Comparison:
    """The items of one run against the same items of another; equal items of a run are told apart by their order."""
    ours, theirs = _by_item(here), _by_item(there)
    both = [(ours[key], theirs[key]) for key in ours if key in theirs]
    passed = [(_values(mine, _passing), _values(other, _passing)) for mine, other in both]
    return Comparison(
        rows=sum(bool(mine and other) for mine, other in passed),
        passed=_difference(passed),
        criteria=tuple(
            CriterionComparison(
                testing_criteria=name,
                score=_difference(
                    [(_values(mine, _score(place)), _values(other, _score(place))) for mine, other in both]
                ),
            )
            for place, name in enumerate(criteria)
        ),
        only_here=tuple(sorted(rows[0].row_index for key, rows in ours.items() if key not in theirs)),
        only_there=tuple(sorted(rows[0].row_index for key, rows in theirs.items() if key not in ours)),
        without_verdict=tuple(
            sorted(
                mine[0].row_index
                for (mine, _), (has_mine, has_other) in zip(both, passed, strict=True)
                if not (has_mine and has_other)
            )
        ),
    )


def _of_criterion(items: Sequence[Measured], place: int, name: str) -> CriterionFigures:
    scores = _by_row(items, _score(place))
    return CriterionFigures(
        testing_criteria=name,
        score_mean=_mean([_mean(row) for row in scores]) if scores else None,
        score=estimate_reward(scores),
        passed=estimate_reward(_by_row(items, _verdict(place))),
        best_of_k=_over_rows(scores, best_of_k),
        variance_within_rows=variance_within_rows(scores),
    )


Value = Callable[[Measured], float | None]


def _passing(item: Measured) -> float | None:
    return None if item.status == "error" else float(item.status == "pass")


def _score(place: int) -> Value:
    return lambda item: item.scores[place]


def _verdict(place: int) -> Value:
    def verdict(item: Measured) -> float | None:
        passed = item.passes[place]
        return None if passed is None else float(passed)

    return verdict


def _values(items: Iterable[Measured], value: Value) -> list[float]:
    return [found for item in items if (found := value(item)) is not None]


def _by_row(items: Iterable[Measured], value: Value) -> list[list[float]]:
    rows: dict[int, list[Measured]] = {}
    for item in items:
        rows.setdefault(item.row_index, []).append(item)
    return [values for samples in rows.values() if (values := _values(samples, value))]


def _by_item(items: Iterable[Measured]) -> dict[tuple[str, int], list[Measured]]:
    """The samples of each item, by its content and by how often the run had it before."""
    rows: dict[int, list[Measured]] = {}
    for item in items:
        rows.setdefault(item.row_index, []).append(item)
    earlier: Counter[str] = Counter()
    found: dict[tuple[str, int], list[Measured]] = {}
    for _, samples in sorted(rows.items()):
        digest = samples[0].item_digest
        found[digest, earlier[digest]] = samples
        earlier[digest] += 1
    return found


def _difference(pairs: Sequence[tuple[list[float], list[float]]]) -> RewardDifference | None:
    return estimate_difference([other for _, other in pairs], [mine for mine, _ in pairs])


def _over_rows(rows: Sequence[list[float]], figure: Callable[[list[float], int], float]) -> dict[int, float]:
    """By each power of two that the fullest row has samples for, the mean over rows that have so many."""
    most = max(map(len, rows), default=0)
    found: dict[int, float] = {}
    k = 1
    while k <= most:
        found[k] = _mean([figure(row, k) for row in rows if len(row) >= k])
        k *= 2
    return found


def _cost(items: Sequence[Measured]) -> float | None:
    costs = [item.cost for item in items if item.prompt_tokens or item.turns_without_usage]
    known = [cost for cost in costs if cost is not None]
    return fsum(known) if known and len(known) == len(costs) else None


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)


def _quantile(rising: Sequence[float], share: float) -> float:
    """The nearest rank: a value that occurred."""
    return rising[ceil(share * len(rising)) - 1]
