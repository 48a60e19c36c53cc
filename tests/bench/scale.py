"""`make bench-scale`: what saturates first with 64 hosts and 20,000 rollouts in flight -> var/bench/scale.json.

Writes `{"cases": {name: {figures..., "bar": ..., "passed": bool}}}`. First, what a rollout costs each process is
measured on this machine, with real ones; then runs of 4 to 64 hosts are simulated in virtual time with those costs. The
tables of docs/scale.md are made of the figures: `python -m tests.bench.scale --tables FILE` prints them.
"""

import argparse
import asyncio
import json
import math
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from pydantic import TypeAdapter

from rft.core.gc_tuning import collect_rarely
from rft.egress.limiter import Limiter
from rft.egress.window import FixedWindow
from tests.bench.scale_costs import Costs, measured_costs
from tests.bench.scale_inbox import InboxCosts, inbox_costs
from tests.bench.scale_simulation import CALLS, Hosts, Simulated, simulate
from tests.bench.scale_tables import tables
from tests.bench.shards import Size

OUT = Path(__file__).parents[2] / "var" / "bench" / "scale.json"
FEWEST, BETWEEN, MOST = 4, (16, 32), 64
"""Hosts."""
MOST_PER_CALL = 1.5
"""Times the cost of a call among few that one among twenty thousand may cost."""
MOST_BACKLOG = 2.0
BUSY = 0.8
"""Share of its time that a process should be busy at most."""
Case: TypeAlias = dict[str, Any]


def limiter_cost(waiting: int, *, owners: int = 64) -> float:
    """Microseconds for each call through a limiter with so many waiting."""

    async def all_calls() -> float:
        limiter = Limiter(FixedWindow(64))

        async def call(number: int) -> None:
            await limiter.enter(f"job-{number % owners}")
            await asyncio.sleep(0)
            limiter.learn(None, latency_s=0.01)
            limiter.leave(f"job-{number % owners}")

        began_s = time.process_time()
        await asyncio.gather(*(call(number) for number in range(waiting)))
        return (time.process_time() - began_s) / waiting * 1e6

    return min(asyncio.run(all_calls()) for _ in range(3))


def limiter_case() -> Case:
    """Twenty thousand waiting calls cost no more each than a thousand do."""
    few, many = limiter_cost(1_000), limiter_cost(20_000)
    return {
        "us_per_call_1000": round(few, 1),
        "us_per_call_20000": round(many, 1),
        "ratio": round(many / few, 2),
        "bar": {"ratio": MOST_PER_CALL},
        "passed": many <= MOST_PER_CALL * few,
    }


def backlog_case(inbox: InboxCosts) -> Case:
    """Reading a rollout costs the same whether a thousand or twenty thousand wait to be read."""
    ratio = inbox.read_large_backlog_ms / inbox.read_small_backlog_ms
    return {
        "ms_per_rollout_1000": round(inbox.read_small_backlog_ms, 3),
        "ms_per_rollout_20000": round(inbox.read_large_backlog_ms, 3),
        "ratio": round(ratio, 2),
        "bar": {"ratio": MOST_BACKLOG},
        "passed": ratio <= MOST_BACKLOG,
    }


def dispatcher_case(few: Simulated, many: Simulated) -> Case:
    """The real time of dispatcher and sessions for a rollout does not grow with what is in flight."""
    ratio = many.cpu_ms_per_rollout / few.cpu_ms_per_rollout
    return {
        "in_flight": [few.in_flight, many.in_flight],
        "cpu_ms_per_rollout": [round(one.cpu_ms_per_rollout, 2) for one in (few, many)],
        "ratio": round(ratio, 2),
        "bar": {"ratio": MOST_PER_CALL},
        "passed": ratio <= MOST_PER_CALL,
    }


def simulated(size: Hosts, costs: Costs, inbox: InboxCosts) -> tuple[Simulated, Case]:
    """A case without a bar, and what it is made of."""
    came = simulate(size, costs, inbox)
    case: Case = {
        "size": asdict(size),
        "in_flight": came.in_flight,
        "rollouts_per_s": round(came.rollouts_per_s, 1),
        "tool_calls_per_s": round(CALLS * came.rollouts_per_s, 1),
        "rollout_s": round(came.rollout_s, 1),
        "utilisation": {name: round(share, 3) for name, share in came.utilisation.items()},
        "busiest": came.busiest,
        "queued_calls": came.queued_calls,
        "bar": None,
    }
    print(f"{size.hosts} hosts", json.dumps(case), flush=True)
    return came, case


def per_process(few: Simulated) -> dict[str, float]:
    """Rollouts a second that one process of each kind does, read from a run in which none is waited for."""
    return {name: round(few.rollouts_per_s / share, 1) for name, share in few.utilisation.items() if share}


def enough(few: Simulated, hosts: int) -> Hosts:
    """So many processes that none is busier than it should be, where more of a kind can be had."""
    scale = hosts / few_hosts(few)

    def processes(name: str) -> int:
        return max(1, math.ceil(few.utilisation[name] * scale / BUSY))

    return Hosts(
        hosts,
        tool_gateways=processes("tool_gateway"),
        grader_gateways=processes("grader_gateway"),
        apis=processes("api"),
        database_cores=processes("database") * 2,
    )


def few_hosts(few: Simulated) -> int:
    """Of a simulation."""
    return few.in_flight // Hosts(1).rollouts_per_host


def measure(size: Size) -> dict[str, Case]:
    """What one of everything costs."""
    costs = asyncio.run(measured_costs(size))
    inbox = asyncio.run(inbox_costs(int(costs.wire_bytes)))
    return {
        "costs": {**_rounded(asdict(costs)), "bar": None},
        "inbox_costs": {**_rounded(asdict(inbox)), "bar": None},
        "limiter": limiter_case(),
        "inbox_backlog": backlog_case(inbox),
    }


def add_simulations(cases: dict[str, Case]) -> None:
    """What comes of the costs on many hosts; each case is written as soon as it is known."""
    costs, inbox = costs_of(cases["costs"]), inbox_of(cases["inbox_costs"])

    def simulated_as(name: str, size: Hosts) -> Simulated:
        came, cases[name] = simulated(size, costs, inbox)
        write(cases)
        return came

    few = simulated_as(f"hosts_{FEWEST}", Hosts(FEWEST))
    cases["per_process"] = {"rollouts_per_s": per_process(few), "bar": None}
    many = simulated_as(f"hosts_{MOST}", Hosts(MOST))
    cases["dispatcher"] = dispatcher_case(few, many)
    simulated_as(f"hosts_{MOST}_enough", enough(few, MOST))
    for hosts in BETWEEN:
        simulated_as(f"hosts_{hosts}", Hosts(hosts))


def write(cases: dict[str, Case]) -> None:
    """What is known so far."""
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"cases": cases}, indent=2) + "\n")


def costs_of(case: Case) -> Costs:
    """As they were written."""
    return TypeAdapter(Costs).validate_python({name: value for name, value in case.items() if name != "bar"})


def inbox_of(case: Case) -> InboxCosts:
    """The same."""
    return TypeAdapter(InboxCosts).validate_python({name: value for name, value in case.items() if name != "bar"})


def _rounded(figures: dict[str, Any]) -> Case:
    return {
        name: round(value, 3) if isinstance(value, float) else _rounded(value) if isinstance(value, dict) else value
        for name, value in figures.items()
    }


def main() -> int:
    """Run it; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=250, help="groups of four rollouts that are measured")
    parser.add_argument("--costs-only", action="store_true", help="only measure: what wants a quiet machine")
    parser.add_argument("--simulate", action="store_true", help="with the costs that were measured last")
    parser.add_argument("--tables", type=Path, help="only print the tables of the figures in this file")
    options = parser.parse_args()
    if options.tables is not None:
        print(tables(json.loads(options.tables.read_text())["cases"]))
        return 0
    collect_rarely()  # As trainers and workers do.
    cases = json.loads(OUT.read_text())["cases"] if options.simulate else measure(Size(groups=options.groups))
    write(cases)
    if not options.costs_only:
        add_simulations(cases)
    write(cases)
    print(OUT.read_text())
    return 0 if all(case.get("passed", True) for case in cases.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
