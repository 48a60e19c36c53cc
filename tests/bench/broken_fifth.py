"""`make bench-faults`: the same training run clean and with a fifth of its rollouts broken -> var/bench/faults.json.

The customer's server of the demo breaks for good for 20 % of the rollouts, chosen by their trace id. The run must learn
what the clean one learns, and each of those rollouts must be labelled with what was done to it. A quarter of an hour
on 2 quiet cores.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from math import sqrt
from pathlib import Path

from demo import OUT, ROOT, run

from rft.core.base import JsonObject
from rft.core.events import EventLine, RolloutDone, StepDone
from rft.core.failure import Failure, FailureCode, Fault

sys.path.insert(0, str(ROOT))
from examples.finqa_mini.faults import Faults

SHARE = 0.2
SEED = 1
CODES = {"unavailable": FailureCode.SERVER_ERROR, "reset": FailureCode.CONNECTION_RESET, "hang": FailureCode.TIMEOUT}
"""What each kind of fault of the example server must be called."""
SEED_SPREAD = 0.04
"""How far the final rewards of clean runs with different seeds lie apart (`make bench-demo`)."""


def events(share: float) -> Iterator[EventLine]:
    """The event log of a run made by `demo.run`."""
    runs = OUT / f"demo-seed{SEED}-faults{share}" / "home" / "runs"
    newest = max(runs.iterdir(), key=lambda folder: folder.stat().st_mtime)
    with (newest / "events.jsonl").open("rb") as log:
        for line in log:
            yield EventLine.model_validate_json(line)


def curve(share: float) -> dict[int, tuple[float, float]]:
    """Validation reward and its standard error by step."""
    points: dict[int, tuple[float, float]] = {}
    for line in events(share):
        if isinstance(line.event, StepDone) and line.event.valid is not None:
            stats = line.event.valid
            assert stats.reward_mean is not None
            assert stats.reward_std is not None
            points[line.event.step] = (stats.reward_mean, stats.reward_std / sqrt(stats.graded))
    return points


def labels() -> JsonObject:
    """Whether each ended rollout is labelled with what the server did to it."""
    plan = Faults(SHARE)
    counted: Counter[str] = Counter()
    for line in events(SHARE):
        if not isinstance(line.event, RolloutDone):
            continue
        kind, outcome = plan.kind(line.event.trace_id), line.event.outcome
        if kind is None:
            counted["blamed_without_fault"] += isinstance(outcome, Failure)
        elif not isinstance(outcome, Failure):
            counted["broken_but_graded"] += 1
        elif outcome.fault is Fault.ENDPOINT and outcome.code is CODES[kind]:
            counted["labelled_right"] += 1
        else:
            counted["labelled_wrong"] += 1
    return dict(counted)


def main() -> None:
    """Run both, compare, write; exit 1 when a bar is missed."""
    reports = {share: run(SEED, share) for share in (0.0, SHARE)}
    clean, broken, told = curve(0.0), curve(SHARE), labels()
    steps = sorted(clean.keys() & broken.keys())
    final = steps[-1]
    noise = 2 * sqrt(clean[final][1] ** 2 + broken[final][1] ** 2 + 2 * SEED_SPREAD**2)
    difference = broken[final][0] - clean[final][0]
    wrong = sum(int(str(told.get(name, 0))) for name in ("labelled_wrong", "broken_but_graded", "blamed_without_fault"))
    case = {
        "clean": {str(step): round(clean[step][0], 4) for step in steps},
        "broken": {str(step): round(broken[step][0], 4) for step in steps},
        "difference_at_end": round(difference, 4),
        "noise_at_end": round(noise, 4),
        "labels": told,
        "excluded_rollouts": reports[SHARE]["excluded_rollouts"],
        "rollouts": reports[SHARE]["rollouts"],
        "seconds_training": {str(share): reports[share]["seconds_training"] for share in reports},
        "bar": {"difference_at_end_at_most": "noise_at_end", "wrong_labels": 0},
        "passed": abs(difference) <= noise and wrong == 0 and bool(told.get("labelled_right")),
    }
    OUT.mkdir(parents=True, exist_ok=True)
    Path(OUT / "faults.json").write_text(json.dumps({"cases": {"fifth_broken": case}}, indent=2) + "\n")
    print(json.dumps(case))
    sys.exit(not case["passed"])


if __name__ == "__main__":
    main()
