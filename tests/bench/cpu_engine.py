"""`make bench-cpu-engine`: the default engine with a model of 100 million parameters -> var/bench/cpu_engine.json.

Writes `{"cases": {name: {figures..., "bar": ..., "passed": bool}}}`. Rollouts of three turns are sampled at once from a
random model of a long context. The control has a slot for as many conversations as would fit at full length, as the
engine had before its memory was shared out by tokens; the two take turns over the same requests in one run.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest import mock

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from transformers import PretrainedConfig

from rft.core.base import JsonObject
from rft.engines import slot_engine, slot_fit
from rft.engines.kv_slots import KvSlots
from rft.engines.slot_engine import SlotEngine
from rft.rollouts.sampler import SampleRequest
from tests.bench.train import Shape, missed

ROOT = Path(__file__).parents[2]
BAR = 1.6
_MEMORY_BYTES = 4 << 30
_FEWEST_BEFORE = 4
_UNLIMITED = 2**40


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of the engine."""

    rollouts: int = 32
    turns: int = 3
    prompt_tokens: int = 120
    turn_tokens: int = 60
    reply_tokens: int = 40
    """Of a tool, between two turns."""
    context_tokens: int = 40_960
    repeats: int = 2


@dataclass(frozen=True, slots=True)
class Measured:
    """One run over all rollouts."""

    conversations: int
    """Slots."""
    tokens: int
    wall_s: float
    cpu_s: float

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.wall_s


def sample(shape: Shape, load: Load, *, threads: int, is_control: bool) -> Measured:
    """All rollouts at once on an engine of their own."""
    model = shape.model()
    slots = (_slots_before if is_control else slot_fit.slots_of)(model.config, load.context_tokens)
    with _as_before() if is_control else nullcontext():
        engine = SlotEngine(model, max_context_tokens=load.context_tokens, threads=threads)
    return asyncio.run(_rollouts(engine, shape, load, slots))


async def _rollouts(engine: SlotEngine, shape: Shape, load: Load, slots: int) -> Measured:
    async def converse(number: int) -> int:
        tokens = [(number * 31 + place * 7) % shape.vocabulary for place in range(load.prompt_tokens)]
        for turn in range(load.turns):
            asked = SampleRequest(
                f"{number}.{turn}", tokens, load.turn_tokens, (), seed=1000 * number + turn, rollout_id=f"{number}"
            )
            answer = await engine.sample(asked)
            reply = [(number + turn + place) % shape.vocabulary for place in range(load.reply_tokens)]
            tokens = [*tokens, *answer.token_ids, *reply]
        engine.rollout_ended(f"{number}")
        return load.turns * load.turn_tokens

    try:
        await engine.sample(SampleRequest("warm", [1, 2, 3], 2, (), seed=1))
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        tokens = sum(await asyncio.gather(*map(converse, range(load.rollouts))))
        return Measured(slots, tokens, time.perf_counter() - wall_s, time.process_time() - cpu_s)
    finally:
        await engine.close()


def _as_before() -> AbstractContextManager[object]:
    return mock.patch.multiple(slot_engine, slots_of=_slots_before, budget_of=_budget_before)


def _budget_before(config: PretrainedConfig) -> int:
    del config
    return _UNLIMITED


def _slots_before(config: PretrainedConfig, capacity: int) -> int:
    return max(_FEWEST_BEFORE, min(256, _MEMORY_BYTES // (KvSlots.bytes_per_token(config) * capacity)))


def run(shape: Shape, load: Load, threads: int) -> JsonObject:
    """New and old in turns; the faster one of each counts."""
    new, old = list[Measured](), list[Measured]()
    for _ in range(load.repeats):
        old.append(sample(shape, load, threads=threads, is_control=True))
        new.append(sample(shape, load, threads=threads, is_control=False))
    best_new, best_old = (max(found, key=lambda one: one.tokens_per_s) for found in (new, old))
    ratio = best_new.tokens_per_s / best_old.tokens_per_s
    case: JsonObject = {
        "load": {**asdict(load)},
        "new": _figures(best_new),
        "control": _figures(best_old),
        "ratio": round(ratio, 3),
        "bar": BAR,
        "passed": ratio >= BAR,
    }
    parameters = sum(parameter.numel() for parameter in shape.model().parameters())
    machine: JsonObject = {"cores": os.cpu_count(), "threads": threads, "parameters": parameters}
    return {"cases": {f"{load.rollouts} rollouts": case}, "machine": machine}


def _figures(measured: Measured) -> JsonObject:
    return {
        "conversations": measured.conversations,
        "tokens_per_s": round(measured.tokens_per_s, 1),
        "cpu_s": round(measured.cpu_s, 1),
    }


def main() -> int:
    """Run it; 1 when the bar is missed."""
    whole = Load()
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in asdict(whole).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--tiny", action="store_true", help="a tiny model: to see that it works")
    parser.add_argument("--out", type=Path, default=ROOT / "var" / "bench" / "cpu_engine.json")
    wanted = vars(parser.parse_args())
    out, threads, is_tiny = wanted.pop("out"), wanted.pop("threads"), wanted.pop("tiny")
    shape = Shape(vocabulary=2048, hidden=64, intermediate=128, layers=2) if is_tiny else Shape()
    report = run(shape, Load(**wanted), threads)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))
    return 1 if missed(report) else 0


if __name__ == "__main__":
    sys.exit(main())
