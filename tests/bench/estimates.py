"""`make bench-estimates`: how often intervals of rewards hold the truth, and which figure of a chosen model is fair.

Simulated policies, fixed seeds. Coverage: n rows with a mean reward, one or four 0/1 rollouts a row, rows equally hard
or not; the truth is the mean over all rows there are. Fairness: of eight checkpoints the one with the best validation
figure is taken; that figure, the same rows with fresh seeds and other rows are held against both truths, the mean over
the same rows and over new ones. Bars: an interval that says 95 % holds the truth in 93 % of all cases at least; of the
three figures only that of other rows is off the truth for new rows by no more than chance. Written to
`var/bench/estimates.json`; 1 when a bar is missed.
"""

import json
import random
import sys
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

from rft.core.estimates import estimate_difference, estimate_reward

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
ROWS, MEANS, SAMPLES = (30, 200, 1000), (0.05, 0.3, 0.5, 0.8, 0.95), (1, 4)
LEAST_COVERAGE = 0.93
TRIES = {30: 4000, 200: 2000, 1000: 1000}
CHECKPOINTS, CHOICES = 8, 3000


def chance_of_a_row(rng: random.Random, mean: float, *, are_alike: bool) -> float:
    """Rows equally hard, or most of them easy or hopeless (a beta distribution)."""
    return mean if are_alike else rng.betavariate(2 * mean, 2 * (1 - mean))


def rollouts(rng: random.Random, chance: float, samples: int) -> list[float]:
    """0/1 rewards."""
    return [float(rng.random() < chance) for _ in range(samples)]


def coverage(rows: int, mean: float, samples: int, *, are_alike: bool) -> dict[str, object]:
    """Of the interval of one policy, and of the difference of two equal ones on the same rows."""
    rng, hits, equal, width = random.Random(1), 0, 0, 0.0
    for _ in range(TRIES[rows]):
        chances = [chance_of_a_row(rng, mean, are_alike=are_alike) for _ in range(rows)]
        first, second = ([rollouts(rng, chance, samples) for chance in chances] for _ in range(2))
        found, difference = estimate_reward(first), estimate_difference(first, second)
        assert found is not None
        assert difference is not None
        hits += found.low <= mean <= found.high
        equal += difference.low <= 0 <= difference.high
        width += (found.high - found.low) / TRIES[rows]
    figures = {"coverage": hits / TRIES[rows], "coverage_of_no_difference": equal / TRIES[rows], "mean_width": width}
    return {**figures, "bar": LEAST_COVERAGE, "passed": min(hits, equal) / TRIES[rows] >= LEAST_COVERAGE}


def choice(rows: int, samples: int) -> dict[str, object]:
    """Bias of each figure of the best of several checkpoints that are equally good over all rows there are.

    What they can differs by row: each checkpoint knows some rows better and others worse than its mean.
    """
    rng, truth = random.Random(2), 0.6
    off_new: dict[str, list[float]] = {"selecting": [], "fresh_seeds": [], "other_rows": []}
    off_same: dict[str, list[float]] = {"selecting": [], "fresh_seeds": []}
    for _ in range(CHOICES):
        chances = [[chance_of_a_row(rng, truth, are_alike=False) for _ in range(rows)] for _ in range(CHECKPOINTS)]
        measured = [fmean(fmean(rollouts(rng, chance, samples)) for chance in one) for one in chances]
        best = max(range(CHECKPOINTS), key=measured.__getitem__)
        fresh = fmean(fmean(rollouts(rng, chance, samples)) for chance in chances[best])
        others = [chance_of_a_row(rng, truth, are_alike=False) for _ in range(rows)]
        other = fmean(fmean(rollouts(rng, chance, samples)) for chance in others)
        same = fmean(chances[best])
        for name, value in (("selecting", measured[best]), ("fresh_seeds", fresh), ("other_rows", other)):
            off_new[name].append(value - truth)
        for name, value in (("selecting", measured[best]), ("fresh_seeds", fresh)):
            off_same[name].append(value - same)
    biased = {name: _is_biased(values) for name, values in off_new.items()}
    return {
        "bias_for_new_rows": {name: fmean(values) for name, values in off_new.items()},
        "bias_for_the_same_rows": {name: fmean(values) for name, values in off_same.items()},
        "bar": "biased for new rows: selecting and fresh_seeds; for the same rows: selecting",
        "passed": biased == {"selecting": True, "fresh_seeds": True, "other_rows": False}
        and _is_biased(off_same["selecting"])
        and not _is_biased(off_same["fresh_seeds"]),
    }


def _is_biased(errors: list[float]) -> bool:
    """By more than three standard errors."""
    return abs(fmean(errors)) > 3 * stdev(errors) / sqrt(len(errors))


def main() -> int:
    """Every case, a line each."""
    cases: dict[str, dict[str, object]] = {}
    for rows in ROWS:
        for mean in MEANS:
            for samples in SAMPLES:
                for are_alike in (True, False):
                    name = f"{rows} rows x {samples}, mean {mean}, rows {'alike' if are_alike else 'unlike'}"
                    cases[name] = coverage(rows, mean, samples, are_alike=are_alike)
                    sys.stdout.write(f"{name}: {cases[name]}\n")
    for rows, samples in ((30, 1), (200, 1), (30, 4)):
        name = f"best of {CHECKPOINTS}, {rows} rows x {samples}"
        cases[name] = choice(rows, samples)
        sys.stdout.write(f"{name}: {cases[name]}\n")
    path = ROOT / "var" / "bench" / "estimates.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cases": cases}, indent=2))
    return int(not all(case["passed"] for case in cases.values()))


if __name__ == "__main__":
    sys.exit(main())
