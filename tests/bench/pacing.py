"""`make bench-pacing`: how fast steps follow each other, told from one run and measured -> var/bench/pacing.json.

Writes `{"cases": {name: {figures..., "bar": ..., "passed": bool}}}`. The demo's policy, which learns nothing here so
that every job has the same rollouts, and its customer, whose tools take as long as the case says. The parameters of
`rft.core.pacing` come from one job that takes turns with tools of 1 s; each further job is told from them alone, and
measured: steps per hour over whole cycles of `1 + max_staleness` steps, the first one and the last steps left out.
"""

import argparse
import json
import os
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from openai import OpenAI

from rft.core.pacing import Calibration, pace
from tests.bench.demo_platform import DemoPlatform, demo, demo_platform
from tests.bench.overlap import DATA_SEED, OUT, SEED, SLOW_CUSTOMER, ended_as

MISSED = 0.20
"""By so much of the told rate the measured one may differ."""
GROUP_SIZE = 8
FEWEST_MEASURED = 4
"""Steps."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One job."""

    latency_s: float
    max_staleness: int = 0
    limit: int | None = None
    """Calls in flight at most, over all tools; None: as many as there are rollouts."""
    rows: int = 4
    """Per step."""

    @property
    def rollouts(self) -> int:
        """Of a step."""
        return self.rows * GROUP_SIZE

    @property
    def measured_steps(self) -> range:
        """Whole cycles, after the one that begins with nothing under way and before those that begin nothing more."""
        cycle = 1 + self.max_staleness
        return range(1 + cycle, 1 + cycle + -(-FEWEST_MEASURED // cycle) * cycle)

    @property
    def steps(self) -> int:
        """Of the whole job."""
        return self.measured_steps[-1] + self.max_staleness


CALIBRATED = Setting(1.0)
SETTINGS = {
    "tools of 0.3 s, taking turns": Setting(0.3),
    "tools of 3 s, taking turns": Setting(3.0),
    "tools of 1 s, staleness 1": Setting(1.0, 1),
    "tools of 3 s, staleness 2": Setting(3.0, 2),
    "tools of 3 s, staleness 4": Setting(3.0, 4),
    "tools of 1 s, 8 calls at once, taking turns": Setting(1.0, limit=8),
    "tools of 1 s, 8 calls at once, staleness 2": Setting(1.0, 2, limit=8),
    "tools of 1 s, twice the rows, staleness 1": Setting(1.0, 1, rows=8),
}


@dataclass(frozen=True, slots=True)
class Run:
    """One job, over its measured steps."""

    steps_per_hour: float
    update_s: float
    rollouts_s: float
    calls: float
    """Per rollout."""
    calls_of_slowest: float
    """Of the rollout of a step that makes the most."""
    steps: Sequence[dict[str, float]]
    """Timing of all steps."""


def train(platform: DemoPlatform, setting: Setting) -> Run:
    """One job from launch to end."""
    job_id = launch(platform, setting)
    ended_as(platform.client, job_id)
    measured = setting.measured_steps
    every = [record for record in demo.steps_of(platform.client, job_id) if record["step"]]
    records = [record for record in every if record["step"] in measured]
    calls = calls_by_step(platform.client, job_id)
    timings = [record["timing"] for record in records]
    return Run(
        steps_per_hour=3600 / fmean(timing["full_step_s"] for timing in timings),
        update_s=fmean(timing["training_s"] + timing["eval_s"] for timing in timings),
        rollouts_s=fmean(timing["sampling_s"] + timing["tools_s"] + timing["grading_s"] for timing in timings),
        calls=fmean(fmean(calls[step]) for step in measured),
        calls_of_slowest=fmean(max(calls[step]) for step in measured),
        steps=tuple({name: round(value, 2) for name, value in record["timing"].items()} for record in every),
    )


def launch(platform: DemoPlatform, setting: Setting) -> str:
    """The order of a job that makes so many steps and learns nothing."""
    lines = (platform.data / "train.jsonl").read_text().splitlines()[: setting.rows * setting.steps]
    file = platform.client.files.create(file=("train.jsonl", "\n".join(lines).encode()), purpose="fine-tune")
    address = f"{platform.server}/tools?latency={setting.latency_s}"
    cap = {} if setting.limit is None else {"max_concurrency": setting.limit}
    method: Any = {
        "type": "reinforcement",
        "reinforcement": {
            "tools": [{"name": name, "server_url": address, **cap} for name in ("search", "list", "cat")],
            "grader": {"type": "endpoint", "name": "partial_credit", "url": f"{platform.server}/grade"},
            "max_episode_steps": 10,
            "budgets": {"max_tokens": 320},
            "hyperparameters": {
                "n_epochs": 1,
                "batch_size": setting.rows,
                "learning_rate_multiplier": 1e-9,
                "max_staleness": setting.max_staleness,
            },
        },
    }
    create: Any = platform.client.fine_tuning.jobs.create
    return create(model="starter", training_file=file.id, method=method, seed=SEED).id


def calls_by_step(client: OpenAI, job_id: str) -> dict[int, list[int]]:
    """Tool calls of each training rollout."""
    calls: dict[int, list[int]] = {}
    path: str | None = f"/fine_tuning/jobs/{job_id}/rollouts?limit=100"
    while path is not None:
        page: Any = client.get(path, cast_to=object)
        for rollout in page["data"]:
            calls.setdefault(rollout["step"], []).append(rollout["tool_calls"])
        more = page["has_more"]
        path = f"/fine_tuning/jobs/{job_id}/rollouts?limit=100&after={page['data'][-1]['id']}" if more else None
    return calls


def calibration(run: Run, setting: Setting) -> Calibration:
    """What a round takes beyond the calls of its slowest rollout is the computing of its samples."""
    sampling_s = max(0.0, run.rollouts_s - run.calls_of_slowest * setting.latency_s)
    return Calibration(
        update_s=run.update_s / setting.rollouts,
        sampling_s=sampling_s / setting.rollouts,
        calls=run.calls,
        calls_of_slowest=run.calls_of_slowest,
    )


def compared(setting: Setting, known: Calibration, run: Run) -> dict[str, Any]:
    """A case."""
    told = pace(known.work(setting.rollouts, setting.latency_s, setting.limit), setting.max_staleness)
    predicted = 3600 / told.step_s
    missed = run.steps_per_hour / predicted - 1
    return {
        "setting": asdict(setting),
        "steps": setting.steps,
        "bound": told.bound,
        "told_step_s": round(told.step_s, 2),
        "measured_step_s": round(3600 / run.steps_per_hour, 2),
        "told_per_hour": round(predicted, 1),
        "measured_per_hour": round(run.steps_per_hour, 1),
        "missed": round(missed, 3),
        "measured": asdict(run),
        "bar": {"missed": MISSED},
        "passed": abs(missed) <= MISSED,
    }


def told_again(cases: dict[str, Any]) -> dict[str, Any]:
    """The runs of a file, held against the model as it is now."""
    known = calibration(Run(**cases["calibration"]["measured"]), CALIBRATED)
    others = {name: case for name, case in cases.items() if name != "calibration"}
    again = {name: compared(SETTINGS[name], known, Run(**case["measured"])) for name, case in others.items()}
    return {"calibration": cases["calibration"], **again}


def written(file: Path, cases: dict[str, Any]) -> int:
    """1 when a bar is missed."""
    file.write_text(json.dumps({"cases": cases}, indent=2) + "\n")
    return 0 if all(case["passed"] for case in cases.values()) else 1


def main() -> int:
    """Run it; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", choices=list(SETTINGS), help="only this one; may be repeated")
    parser.add_argument("--out", type=Path, default=OUT / "pacing")
    parser.add_argument("--again", action="store_true", help="only tell what was measured last by the model as it is")
    options = parser.parse_args()
    file = options.out.parent / "pacing.json"
    if options.again:
        return written(file, told_again(json.loads(file.read_text())["cases"]))
    signal.signal(signal.SIGTERM, demo.stop)
    options.out.mkdir(parents=True, exist_ok=True)
    cases: dict[str, Any] = {}
    customer = [SLOW_CUSTOMER, "--latency", "1"]
    settings = {"RFT_HAS_ADAPTIVE_LIMITS": "false"}  # The caps of the cases, and no others.
    with demo_platform(
        options.out, data_seed=DATA_SEED, is_quick=False, customer=customer, settings=settings
    ) as platform:
        first = train(platform, CALIBRATED)
        known = calibration(first, CALIBRATED)
        told = {name: round(value, 4) for name, value in asdict(known).items()}
        cases["calibration"] = {"setting": asdict(CALIBRATED), **told, "measured": asdict(first), "passed": True}
        print("calibration", json.dumps(told), flush=True)
        for name in options.case or SETTINGS:
            cases[name] = compared(SETTINGS[name], known, train(platform, SETTINGS[name]))
            written(file, cases)
            print(name, json.dumps(cases[name]), flush=True)
    return written(file, cases)


if __name__ == "__main__":
    raise SystemExit(main())
