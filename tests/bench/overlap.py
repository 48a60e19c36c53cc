"""`make bench-overlap`: rollouts beside updates against taking turns -> var/bench/overlap.json.

Writes `{"cases": {name: {figures..., "bar": ..., "passed": bool}}}`. The demo's job, once with `max_staleness` 0 and
once with more, in one run on one platform, on the default engine and on vLLM's CPU build: steps per hour over all steps
after the baseline, evaluations included, the final reward on fresh seeds, and how many rollouts were begun in vain.

What is gained and what is learned are measured apart. A policy that learns changes its work while it is measured: it
calls fewer tools, and its updates leave out the groups that have become equal. So the first cases have a policy that
stays as it is (a learning rate of next to nothing): five tool turns of 1 s, and an update of 5 s (real micro-batches,
small ones, on the sampler's own cores; nothing sleeps but the tools). The next ones have tools that answer at once, and
a policy that learns, with several seeds.
"""

import argparse
import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from openai import OpenAI

from rft.core.events import EventLine, RolloutDone, RolloutsBegan, RolloutsVoided
from rft.core.spec import Engine
from rft.run_directory import layout
from tests.bench.demo_platform import DemoPlatform, demo, demo_platform

OUT = Path(__file__).parents[2] / "var" / "bench"
DATA_SEED, SEED, SEEDS = 41, 11, (11, 12, 13)
SLOW_CUSTOMER = Path(__file__).with_name("slow_customer.py")


@dataclass(frozen=True, slots=True)
class Case:
    """Tools, an update, and a bound on staleness."""

    name: str
    latency_s: float
    tail: float
    """Standard deviation of the latency's logarithm."""
    max_staleness: int
    micro_batch_tokens: int | None = None
    """None: as many as the platform takes."""
    bar: float | None = None
    """Steps per hour, beside those of taking turns; None: they are told."""
    reward_bar: float | None = None
    """By so much the final reward may be lower, over all seeds; None: it is told, and older policies teach less."""
    hyperparameters: Mapping[str, float] = field(default_factory=dict[str, float])
    """Beside the demo's."""
    pins: tuple[str, ...] = ("rollout",)
    """`policy_pin` of the jobs beside the control. The bars are those of the first."""
    engine: Engine = Engine.TRANSFORMERS
    """vLLM: a server of each job's own, on the same cores."""
    seeds: tuple[int, ...] = (SEED,)


AS_IT_IS = {"learning_rate_multiplier": 1e-9, "n_epochs": 1, "eval_interval": 100}
TEN_LARGE_STEPS = {"n_epochs": 1, "batch_size": 40, "compute_multiplier": 0.5, "eval_interval": 100}
CASES = (
    Case("tools of 1 s, staleness 1", 1.0, 0.0, 1, 512, bar=1.5, hyperparameters=AS_IT_IS),
    Case(
        "tools of 1 s, staleness 1, sampled by vLLM",
        1.0,
        0.0,
        1,
        512,
        bar=1.5,
        hyperparameters=AS_IT_IS,
        engine=Engine.VLLM,
    ),
    Case("what staleness 1 learns", 0.0, 0.0, 1, reward_bar=0.03, seeds=SEEDS),
    Case("what staleness 1 learns, sampled by vLLM", 0.0, 0.0, 1, reward_bar=0.03, seeds=SEEDS, engine=Engine.VLLM),
    # A step takes three minutes by turns: few of them, and as few evaluations as there can be.
    Case(
        "tools of 10 s with a long tail, staleness 4",
        10.0,
        0.8,
        4,
        512,
        bar=2.5,
        hyperparameters=TEN_LARGE_STEPS,
        pins=("rollout", "turn"),
    ),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One job."""

    seed: int
    max_staleness: int
    policy_pin: str
    steps: int
    steps_per_hour: float
    seconds_by_phase: dict[str, float]
    """Means over the steps."""
    tool_turns: float
    """Tool calls of a rollout, over all steps: policies that learn otherwise call otherwise, and so have other work."""
    truncated_share: float
    staleness: float
    """Mean age of the policies that sampled what is trained on, in steps."""
    thrown_away: int
    """Rollouts that were begun and came to nothing."""
    gap: float
    """Mean difference of log-probabilities, over the steps."""
    final: float
    final_low: float
    final_high: float


def train(platform: DemoPlatform, hyperparameters: Mapping[str, Any], seed: int) -> Run:
    """One job from launch to end."""
    job_id = demo.launch(platform.client, platform.data, platform.server, seed, dict(hyperparameters))
    ended_as(platform.client, job_id)
    job: Any = platform.client.get(f"/fine_tuning/jobs/{job_id}", cast_to=object)
    _, *records = demo.steps_of(platform.client, job_id)
    seconds = sum(record["timing"]["full_step_s"] for record in records)
    final, phases = job["final_figures"]["reward"], ("sampling_s", "tools_s", "grading_s", "training_s", "eval_s")
    return Run(
        seed=seed,
        max_staleness=hyperparameters["max_staleness"],
        policy_pin=hyperparameters["policy_pin"],
        steps=len(records),
        steps_per_hour=round(3600 * len(records) / seconds, 1),
        seconds_by_phase={phase: mean([record["timing"][phase] for record in records]) for phase in phases},
        tool_turns=mean([record["train"]["tool_calls_mean"] for record in records]),
        truncated_share=mean([record["optimization"]["truncated_share"] or 0.0 for record in records]),
        staleness=mean([record["optimization"]["staleness_mean"] or 0.0 for record in records]),
        thrown_away=begun_in_vain(platform.home / "runs" / job_id / layout.EVENTS),
        gap=mean([record["optimization"]["sampling_logp_difference"] or 0.0 for record in records]),
        final=final["mean"],
        final_low=final["low"],
        final_high=final["high"],
    )


def begun_in_vain(log: Path) -> int:
    """Rollouts of which the run's own events tell a beginning and no end that counts."""
    begun, ended = set[str](), set[str]()
    for line in log.read_bytes().splitlines():
        match EventLine.model_validate_json(line).event:
            case RolloutsBegan(rollouts=rollouts):
                begun |= {rollout.trace_id for rollout in rollouts}
            case RolloutDone(trace_id=trace_id):
                ended.add(trace_id)
            case RolloutsVoided(trace_ids=trace_ids):
                ended -= set(trace_ids)
            case _:
                pass
    return len(begun - ended)


def ended_as(client: OpenAI, job_id: str) -> None:
    """Wait until the job stands still. Stops the bench where it did not succeed."""
    while (status := client.fine_tuning.jobs.retrieve(job_id).status) not in (*demo.TERMINAL, "paused"):
        time.sleep(1.0)
    if status != "succeeded":
        raise SystemExit(f"the job is {status}")


def measure(case: Case, out: Path, *, is_quick: bool) -> dict[str, Any]:
    """The control first, then the case, with each seed, on one platform."""
    customer = [SLOW_CUSTOMER, "--latency", str(case.latency_s), "--tail", str(case.tail)]
    settings = {"RFT_ENGINE": str(case.engine)}
    if case.micro_batch_tokens is not None:
        settings["RFT_MICRO_BATCH_TOKENS"] = str(case.micro_batch_tokens)
    base = demo.QUICK_HYPERPARAMETERS if is_quick else {**demo.HYPERPARAMETERS, **case.hyperparameters}
    pairs: list[tuple[Run, dict[str, Run]]] = []
    with demo_platform(out, data_seed=DATA_SEED, is_quick=is_quick, customer=customer, settings=settings) as platform:
        for seed in case.seeds:
            turns = train(platform, {**base, "max_staleness": 0, "policy_pin": "rollout"}, seed)
            ahead = {**base, "max_staleness": case.max_staleness}
            pairs.append((turns, {pin: train(platform, {**ahead, "policy_pin": pin}, seed) for pin in case.pins}))
    return {"case": asdict(case), **judged(case, [(turns, by_pin[case.pins[0]]) for turns, by_pin in pairs])} | {
        "runs": [{"taking_turns": asdict(turns), "overlapped": as_dicts(by_pin)} for turns, by_pin in pairs]
    }


def judged(case: Case, pairs: Sequence[tuple[Run, Run]]) -> dict[str, Any]:
    """What became of the bars; each pair is the control and the case, of one seed."""
    ratio = mean([ahead.steps_per_hour / turns.steps_per_hour for turns, ahead in pairs])
    lost = mean([turns.final - ahead.final for turns, ahead in pairs])
    thrown_away = sum(ahead.thrown_away for _, ahead in pairs)
    is_fast = case.bar is None or ratio >= case.bar
    is_taught = case.reward_bar is None or lost <= case.reward_bar
    return {
        "ratio": ratio,
        "reward_lost": lost,
        "thrown_away": thrown_away,
        "bar": {"ratio": case.bar, "reward_lost": case.reward_bar, "thrown_away": 0},
        "passed": is_fast and is_taught and thrown_away == 0,
    }


def as_dicts(by_pin: Mapping[str, Run]) -> dict[str, dict[str, Any]]:
    """As written."""
    return {pin: asdict(run) for pin, run in by_pin.items()}


def mean(values: Sequence[float]) -> float:
    """Of at least one."""
    return round(sum(values) / len(values), 4)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", type=int, action="append", choices=range(len(CASES)), help="by number; default: all")
    parser.add_argument("--quick", action="store_true", help="a few rows and steps: to see that it works")
    parser.add_argument("--out", type=Path, default=OUT / "overlap")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, demo.stop)
    options.out.mkdir(parents=True, exist_ok=True)
    cases: dict[str, Any] = {}
    for number in options.case or range(len(CASES)):
        case = CASES[number]
        cases[case.name] = measure(case, options.out, is_quick=options.quick)
        (options.out.parent / "overlap.json").write_text(json.dumps({"cases": cases}, indent=2) + "\n")
        told = cases[case.name]
        print(f"{case.name}: {told['ratio']} x the steps per hour, reward lost {told['reward_lost']}; {told['bar']}")


if __name__ == "__main__":
    main()
