"""`make bench-peers`: a step beside TRL's own tool loop, rollouts beside `verifiers` -> var/bench/peers.json.

Writes `{"cases": {name: {figures..., "bar": ..., "passed": bool}}}`. Both sides of a case do the same turns and tokens,
which are counted, and take turns in who is first. A ratio is the peer's wall time over ours: the median of the repeats,
their least and their most; the least is held against the bar. Peers are installed below `var/bench/peers`, each into an
environment of its own; TRL is the release that this project is built on. `tests.bench.peer_steps` and
`tests.bench.peer_rollouts` say how each is run. 1 when a bar is missed.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from random import Random
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from rft.testing.endpoint import TOOL_PATH, ScriptedEndpoint, ScriptedGrader, ScriptedTools
from rft.testing.faults import Fault, HttpAnswer, ReceivedCall
from rft.testing.loopback import LoopbackEndpoint
from tests.bench import peer_rollouts, peer_steps
from tests.bench.peer_rollouts import PEERS, Burst, Peer
from tests.bench.peer_steps import Step

OUT = Path(__file__).parents[2] / "var" / "bench"
STEP_BAR, ROLLOUT_BAR = 4.0, 5.0
"""The peer's wall time is to be at least so many times ours."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Size:
    """How large the bench is."""

    repeats: int = 5
    steps: int = 2
    """Of each repeat, after one that warms up."""
    rollouts: int = 256
    tool_s: float = peer_steps.TOOL_S


def in_turns(repeats: int, peer: Callable[[], T], ours: Callable[[], T]) -> list[tuple[T, T]]:
    """Pairs of peer and ours; every other repeat begins with ours."""
    pairs: list[tuple[T, T]] = []
    for number in range(repeats):
        if number % 2:
            mine, others = ours(), peer()
        else:
            others, mine = peer(), ours()
        pairs.append((others, mine))
    return pairs


def ratio(pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Peer over ours: median, least and most of the repeats."""
    ratios = [peer / ours for peer, ours in pairs]
    return {"median": round(median(ratios), 2), "least": round(min(ratios), 2), "most": round(max(ratios), 2)}


class Customer(ScriptedEndpoint):
    """A slow tool and a grader that draws, at once."""

    def __init__(self, tool_s: float) -> None:
        chance = Random(3)
        super().__init__(
            ScriptedTools({"search": lambda arguments, item: peer_steps.OUTPUT}),
            ScriptedGrader(lambda sample, item: chance.random()),
        )
        self._tool_s = tool_s

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        if call.path.startswith(TOOL_PATH):
            await asyncio.sleep(self._tool_s)
        return await super().answer(call)


async def steps_case(size: Size) -> dict[str, Any]:
    """TRL's tool loop against a run of ours."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = await asyncio.to_thread(peer_steps.save_taught_policy, folder / "taught")
        async with LoopbackEndpoint(Customer(size.tool_s)) as customer:
            runs = iter(folder / f"run-{number}" for number in range(size.repeats))

            def trl() -> list[Step]:
                return peer_steps.trl_steps(model, steps=size.steps, tool_s=size.tool_s)

            def ours() -> list[Step]:
                tool_url, grader_url = customer.tool_url, customer.grader_url
                return peer_steps.our_steps(model, next(runs), tool_url, grader_url, steps=size.steps)

            pairs = await asyncio.to_thread(in_turns, size.repeats, trl, ours)
    return judge_steps(pairs)


def judge_steps(pairs: Sequence[tuple[list[Step], list[Step]]]) -> dict[str, Any]:
    """The case's figures, its bar, and whether it was kept."""
    whole = ratio([(_mean_of(peer, "whole_s"), _mean_of(ours, "whole_s")) for peer, ours in pairs])
    done = [
        {(step.tool_calls, step.sampled_tokens) for steps in side for step in steps}
        for side in zip(*pairs, strict=True)
    ]
    is_same = done[0] == done[1] and len(done[0]) == 1
    return {
        "ratio_of_steps": whole,
        "ratio_of_rollouts": ratio(
            [(_mean_of(peer, "rollouts_s"), _mean_of(ours, "rollouts_s")) for peer, ours in pairs]
        ),
        "trl": _step_figures([step for steps, _ in pairs for step in steps]),
        "ours": _step_figures([step for _, steps in pairs for step in steps]),
        "is_same_work": is_same,
        "versions": {name: version(name) for name in ("trl", "transformers", "torch")},
        "bar": {"ratio_of_steps": STEP_BAR, "is_same_work": True},
        "passed": is_same and whole["least"] >= STEP_BAR,
    }


def _mean_of(steps: Sequence[Step], name: str) -> float:
    return fmean(getattr(step, name) for step in steps)


def _step_figures(steps: Sequence[Step]) -> dict[str, float]:
    return {name: round(_mean_of(steps, name), 3) for name in Step.__slots__}


async def rollouts_case(peer: Peer, size: Size, home: Path) -> dict[str, Any]:
    """A release of `verifiers` against our rollouts of messages."""
    await asyncio.to_thread(peer_rollouts.installed, peer, home)
    async with peer_rollouts.mock_servers() as servers:
        pairs = await asyncio.to_thread(
            in_turns,
            min(size.repeats, peer.repeats),
            lambda: peer_rollouts.peer_process(peer, home, servers, size.rollouts),
            lambda: peer_rollouts.our_process(servers, size.rollouts),
        )
    return judge_rollouts(pairs, size.rollouts) | {"versions": peer_rollouts.versions(peer, home)}


def judge_rollouts(pairs: Sequence[tuple[Burst, Burst]], rollouts: int) -> dict[str, Any]:
    """The case's figures, its bar, and whether it was kept."""
    wall = ratio([(peer.wall_s, ours.wall_s) for peer, ours in pairs])
    calls = peer_rollouts.CALLS
    whole = (rollouts, rollouts, (calls + 1) * rollouts, calls * rollouts)
    is_same = all((one.rollouts, one.answered, one.turns, one.tool_calls) == whole for pair in pairs for one in pair)
    return {
        "ratio_of_wall_time": wall,
        "ratio_of_processor_time": ratio([(peer.cpu_s, ours.cpu_s) for peer, ours in pairs]),
        "verifiers": _burst_figures([peer for peer, _ in pairs]),
        "ours": _burst_figures([ours for _, ours in pairs]),
        "least_possible_s": (2 * calls + 1) * peer_rollouts.LATENCY_S,
        "is_same_work": is_same,
        "bar": {"ratio_of_wall_time": ROLLOUT_BAR, "is_same_work": True},
        "passed": is_same and wall["least"] >= ROLLOUT_BAR,
    }


def _burst_figures(bursts: Sequence[Burst]) -> dict[str, float]:
    figures = {name: fmean(asdict(burst)[name] for burst in bursts) for name in Burst.__slots__}
    figures["cpu_ms_per_rollout"] = 1000 * figures["cpu_s"] / max(1.0, figures["rollouts"])
    return {name: round(value, 3) for name, value in figures.items()}


def main() -> int:
    """Measure, write and judge."""
    cases: dict[str, Callable[[Size], dict[str, Any]]] = {
        "TRL's tool loop": lambda size: asyncio.run(steps_case(size)),
        **{peer.name: lambda size, peer=peer: asyncio.run(rollouts_case(peer, size, OUT / "peers")) for peer in PEERS},
    }
    names = list(cases)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", type=int, action="append", choices=range(len(names)), help="by number; default: all")
    parser.add_argument("--repeats", type=int, default=Size().repeats)
    options = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    OUT.mkdir(parents=True, exist_ok=True)
    done: dict[str, Any] = {}
    for number in options.case or range(len(names)):
        name = names[number]
        done[name] = cases[name](Size(repeats=options.repeats))
        told = {"cases": done, "machine": {"cores": os.cpu_count(), "python": platform.python_version()}}
        (OUT / "peers.json").write_text(json.dumps(told, indent=2) + "\n")
        print(f"{'kept  ' if done[name]['passed'] else 'MISSED'}  {name}: {json.dumps(done[name])}")
    return 0 if all(case["passed"] for case in done.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
