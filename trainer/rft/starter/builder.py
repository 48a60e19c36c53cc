"""Building a starter: tokenizer, weights, warm-up, gate, and a directory that appears whole or not at all."""

import json
import random
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from rft.core.errors import RftError
from rft.core.ids import seed_63
from rft.starter.encoding import Encoder
from rft.starter.gate import Gate
from rft.starter.habits import Habits
from rft.starter.model import build_model
from rft.starter.probes import measure_baseline, measure_copying
from rft.starter.report import Baseline, Probes, StarterReport
from rft.starter.tokenizer import build_tokenizer
from rft.starter.warmup import Schedule, train_on, warm_up

REPORT = "starter.json"
_PROBE_SEED = 7


class StarterError(RftError):
    """No start gave a starter that passes the gate."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Limits and sizes of a build."""

    schedule: Schedule = field(default_factory=Schedule)
    gate: Gate = field(default_factory=Gate)
    starts: int = 2
    """Starts from random weights, each with another seed."""
    rounds: int = 4
    """Warm-up and further rounds within one start."""
    traces: int = 128
    """For the copy probes."""
    rollouts: int = 256
    """For the baseline: standard error 0.03."""


@dataclass(slots=True)
class _Progress:
    rounds: int = 0
    problems: str = ""


def build_starter(directory: Path, seed: int, plan: Plan | None = None) -> StarterReport:
    """See `rft.starter.build`."""
    plan = plan or Plan()
    wall, cpu = time.monotonic(), time.process_time()
    encoder = Encoder(build_tokenizer())
    progress = _Progress()
    for start in range(plan.starts):
        model = build_model(encoder.tokenizer, seed_63("starter", seed, start))
        measured = _train(model, encoder, random.Random(f"starter {seed} {start}"), plan, progress)
        if measured is None:
            continue
        probes, baseline = measured
        report = StarterReport(
            seed=seed,
            rounds=progress.rounds,
            probes=probes,
            baseline=baseline,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            vocabulary=len(encoder.tokenizer),
            seconds=round(time.monotonic() - wall, 1),
            cpu_seconds=round(time.process_time() - cpu, 1),
        )
        _save(directory, model, encoder.tokenizer, report)
        return report
    raise StarterError(
        f"no starter passed the gate in {progress.rounds} rounds of training from seed {seed}; "
        f"the last one failed because: {progress.problems}"
    )


def _train(
    model: LlamaForCausalLM, encoder: Encoder, rng: random.Random, plan: Plan, progress: _Progress
) -> tuple[Probes, Baseline] | None:
    """Warm up, then train on with corrected habits until the gate is passed; None when it never is."""
    habits = Habits()
    for round_number in range(plan.rounds):
        if round_number == 0:
            warm_up(model, encoder, rng, habits, plan.schedule)
        else:
            train_on(model, encoder, rng, habits, plan.schedule.extra_steps)
        progress.rounds += 1
        probes = measure_copying(model, encoder, _PROBE_SEED, plan.traces)
        baseline = measure_baseline(model, encoder, _PROBE_SEED, plan.rollouts)
        problems = plan.gate.problems(probes, baseline)
        if not problems:
            return probes, baseline
        progress.problems = "; ".join(problems)
        habits = habits.shifted(plan.gate.reward_aim - baseline.reward)
    return None


def _save(directory: Path, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, report: StarterReport) -> None:
    """Write beside the target, then swap by renaming: a reader never sees half a model."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}.", dir=directory.parent) as scratch:
        fresh = Path(scratch) / "fresh"
        model.save_pretrained(fresh)
        tokenizer.save_pretrained(fresh)
        _name_tokenizer_class(fresh)
        (fresh / REPORT).write_text(report.model_dump_json(indent=2) + "\n")
        if directory.exists():
            directory.rename(Path(scratch) / "old")
        fresh.rename(directory)


def _name_tokenizer_class(directory: Path) -> None:
    """The class name that transformers 4 and 5 both know; 5 would write one that 4 does not."""
    path = directory / "tokenizer_config.json"
    config = json.loads(path.read_text())
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    path.write_text(json.dumps(config, indent=2) + "\n")
