"""`make bench-multiplier`: what more rollouts per row buy -> var/bench/multiplier.json, .md and .svg.

The demo's job with `compute_multiplier` 0.5, 1, 2 and 4, two seeds each, on one platform with the demo's server and
questions. Validation reward by step and by training rollouts spent; the reward at the end is the platform's own final
figure: the best checkpoint on the validation rows with seeds that chose nothing. Intervals are those of the measured
rewards; how two seeds differ is told beside. Rewards do not depend on how busy the machine is. An hour on 2 cores.
"""

import argparse
import json
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from typing import Any

from rft.core.hyperparameters import group_size
from tests.bench.demo_platform import DemoPlatform, demo, demo_platform
from tests.bench.multiplier_report import curve_picture, markdown_table

OUT = demo.ROOT / "var" / "bench"
MULTIPLIERS = (0.5, 1.0, 2.0, 4.0)
SEEDS = (11, 12)
DATA_SEED = 1
"""All runs see the same questions."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean reward with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Point:
    """An evaluation on the validation rows."""

    step: int
    train_rollouts: int
    """Spent on training before it, failed ones included."""
    reward: Estimate


@dataclass(frozen=True, slots=True)
class Run:
    """One job."""

    multiplier: float
    seed: int
    points: tuple[Point, ...]
    final: Estimate
    """The best checkpoint, measured again with fresh seeds."""


def mean_of(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of independent estimates; its interval is theirs, added in squares and cut to 0..1."""
    count = len(estimates)
    mean = sum(each.mean for each in estimates) / count
    below = sqrt(sum((each.mean - each.low) ** 2 for each in estimates)) / count
    above = sqrt(sum((each.high - each.mean) ** 2 for each in estimates)) / count
    return Estimate(mean, max(0.0, mean - below), min(1.0, mean + above))


def points_of(records: Sequence[dict[str, Any]]) -> tuple[Point, ...]:
    """The evaluations among a job's step records, which come oldest first."""
    points: list[Point] = []
    spent = 0
    for record in records:
        spent += record["train"]["rollouts"] if record["train"] else 0
        valid = record["valid"]
        if valid is not None and valid["reward_estimate"] is not None:
            reward = valid["reward_estimate"]
            points.append(Point(record["step"], spent, Estimate(reward["mean"], reward["low"], reward["high"])))
    return tuple(points)


def case_of(runs: Sequence[Run]) -> dict[str, Any]:
    """What runs of one multiplier came to together; they were evaluated at the same steps."""
    evaluations = zip(*(run.points for run in runs), strict=True)
    points = [
        Point(same[0].step, sum(p.train_rollouts for p in same) // len(same), mean_of([p.reward for p in same]))
        for same in evaluations
    ]
    return {
        "compute_multiplier": runs[0].multiplier,
        "rollouts_per_row": group_size(runs[0].multiplier),
        "points": [asdict(point) for point in points],
        "final": asdict(mean_of([run.final for run in runs])),
        "final_by_seed": {str(run.seed): round(run.final.mean, 4) for run in runs},
    }


def train(platform: DemoPlatform, multiplier: float, seed: int, quick: bool) -> Run:
    """One job from launch to end."""
    base = demo.QUICK_HYPERPARAMETERS if quick else demo.HYPERPARAMETERS
    client, hyperparameters = platform.client, {**base, "compute_multiplier": multiplier}
    job_id = demo.launch(client, platform.data, platform.server, seed, hyperparameters)
    demo.watch(client, job_id)
    job: Any = client.get(f"/fine_tuning/jobs/{job_id}", cast_to=object)
    final = job["final_figures"]["reward"]
    estimate = Estimate(final["mean"], final["low"], final["high"])
    return Run(multiplier, seed, points_of(demo.steps_of(client, job_id)), estimate)


def measure(multipliers: Sequence[float], seeds: Sequence[int], out: Path, quick: bool) -> dict[str, Any]:
    """Every run, one after the other; what is known is on disk after each multiplier."""
    cases: dict[str, Any] = {}
    with demo_platform(out, data_seed=DATA_SEED, is_quick=quick) as platform:
        for multiplier in multipliers:
            cases[f"x{multiplier:g}"] = case_of([train(platform, multiplier, seed, quick) for seed in seeds])
            write(cases, out)
    return cases


def write(cases: dict[str, Any], out: Path) -> None:
    """Figures, table and picture beside each other."""
    (out.parent / "multiplier.json").write_text(json.dumps({"cases": cases}, indent=2) + "\n")
    (out.parent / "multiplier.md").write_text(markdown_table(list(cases.values())))
    (out.parent / "multiplier.svg").write_text(curve_picture(list(cases.values())))


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--multiplier", type=float, action="append", help=f"instead of {MULTIPLIERS}")
    parser.add_argument("--seed", type=int, action="append", help=f"instead of {SEEDS}")
    parser.add_argument("--quick", action="store_true", help="a few rows and steps: to see that it works")
    parser.add_argument("--out", type=Path, default=OUT / "multiplier")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, demo.stop)
    options.out.mkdir(parents=True, exist_ok=True)
    cases = measure(options.multiplier or MULTIPLIERS, options.seed or SEEDS, options.out, options.quick)
    print(markdown_table(list(cases.values())))


if __name__ == "__main__":
    main()
