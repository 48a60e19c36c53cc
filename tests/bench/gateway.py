"""`make bench-gateway`: the gateways under load, against a bare aiohttp control measured in the same run.

Writes `var/bench/gateway.json`: `{"cases": {name: {figures..., "bar": ..., "passed": bool}}}`. The endpoint runs in a
process of its own, so that the CPU time is that of the caller alone.
"""

import argparse
import asyncio
import gc
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import overload
from load import ITEM, ROOT, SEARCH, endpoint_process, tool_call

from rft.core.base import JsonObject
from rft.core.gc_tuning import collect_rarely
from rft.core.spec import ToolServer
from rft.egress.endpoint_client import EndpointClient
from rft.egress.limits import Limits
from rft.egress.signing import Signer, new_secret
from rft.tool_gateway.contract import to_wire
from rft.tool_gateway.gateway import HttpToolGateway
from rft.trainer.events import EventWriter
from rft.trainer.ledger import Ledger

TOOL_LATENCY_S = 0.1
SAMPLE_LATENCY_S = 0.1
"""The engine's own work is not measured here: a sample is a pause, in the control as well."""
SAMPLES_PER_ROLLOUT = 4
CALLS_PER_ROLLOUT = 3


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of a burst."""

    wall_s: float
    cpu_ms_per_call: float
    calls: int


async def burst(
    rollouts: int, call: Callable[[int, int], Awaitable[None]], *, finish: Callable[[], None] = lambda: None
) -> Measured:
    """All rollouts at once: a sample before each tool call and one after the last. `finish` is measured, too."""

    async def rollout(number: int) -> None:
        for turn in range(SAMPLES_PER_ROLLOUT):
            await asyncio.sleep(SAMPLE_LATENCY_S)
            if turn < CALLS_PER_ROLLOUT:
                await call(number, turn)

    gc.collect()
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    await asyncio.gather(*(rollout(number) for number in range(rollouts)))
    finish()
    wall_s, cpu_s = time.perf_counter() - started_s, time.process_time() - started_cpu_s
    calls = rollouts * CALLS_PER_ROLLOUT
    return Measured(wall_s, cpu_s / calls * 1e3, calls)


async def control(url: str, rollouts: int) -> Measured:
    """Bare aiohttp, reading and decoding the reply, nothing else."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:

        async def call(number: int, turn: int) -> None:
            wire = to_wire(tool_call(turn), item=ITEM, trace_id=f"trace_{number}")
            async with session.post(url, json=wire) as reply:
                assert reply.status == 200
                await reply.json()

        return await burst(rollouts, call)


async def full_stack(url: str, rollouts: int, *, max_in_flight: int) -> Measured:
    """The tool gateway as the trainer uses it: schema check, adaptive limits, retries, guard, signing, ledger."""
    with tempfile.TemporaryDirectory() as folder, closing(EventWriter(Path(folder) / "events.jsonl")) as events:
        ledger = Ledger(events)
        client = EndpointClient.open(
            limits=Limits.adaptive(max_in_flight),
            signer=Signer([new_secret(bytes(range(32)))]),
            on_attempt=ledger.add,
        )
        async with client:
            gateway = HttpToolGateway(client, [ToolServer(name="search", server_url=url)], job_id="ftjob-bench")

            async def call(number: int, turn: int) -> None:
                result = await gateway.call(tool_call(turn), tools=[SEARCH], item=ITEM, trace_id=f"trace_{number}")
                assert result.output is not None, result.failure

            measured = await burst(rollouts, call, finish=ledger.flush)
        lines = (Path(folder) / "events.jsonl").read_text().splitlines()
        assert sum(len(json.loads(line)["event"]["attempts"]) for line in lines) == measured.calls
    return measured


async def burst_500() -> JsonObject:
    """500 rollouts at once."""
    async with endpoint_process("--latency", str(TOOL_LATENCY_S)) as url:
        await control(url, 50)
        controls = [await control(url, 500) for _ in range(3)]
        ours = [await full_stack(url, 500, max_in_flight=500) for _ in range(3)]
    return _compared(controls, ours, bar={"wall_ratio": 2.0, "cpu_ms_per_call": 1.0})


async def burst_2000() -> JsonObject:
    """2,000 in flight cost no more per call than 500."""
    async with endpoint_process("--latency", str(TOOL_LATENCY_S)) as url:
        await control(url, 50)
        small = min([await full_stack(url, 500, max_in_flight=2000) for _ in range(2)], key=_cpu)
        large = min([await full_stack(url, 2000, max_in_flight=2000) for _ in range(2)], key=_cpu)
    ratio = large.cpu_ms_per_call / small.cpu_ms_per_call
    return {
        "cpu_ms_per_call_500": round(small.cpu_ms_per_call, 3),
        "cpu_ms_per_call_2000": round(large.cpu_ms_per_call, 3),
        "wall_s": round(large.wall_s, 3),
        "cpu_ratio": round(ratio, 3),
        "bar": {"cpu_ratio": 1.3},
        "passed": ratio <= 1.3,
    }


def _cpu(measured: Measured) -> float:
    return measured.cpu_ms_per_call


def _compared(controls: list[Measured], ours: list[Measured], *, bar: dict[str, float]) -> JsonObject:
    control_wall_s, wall_s = min(m.wall_s for m in controls), min(m.wall_s for m in ours)
    cpu_ms = min(m.cpu_ms_per_call for m in ours)
    ratio = wall_s / control_wall_s
    return {
        "control_wall_s": round(control_wall_s, 3),
        "control_cpu_ms_per_call": round(min(m.cpu_ms_per_call for m in controls), 3),
        "wall_s": round(wall_s, 3),
        "wall_ratio": round(ratio, 3),
        "cpu_ms_per_call": round(cpu_ms, 3),
        "calls": ours[0].calls,
        "bar": dict(bar),
        "passed": ratio <= bar["wall_ratio"] and cpu_ms <= bar["cpu_ms_per_call"],
    }


CASES: dict[str, Callable[[], Awaitable[JsonObject]]] = {
    "burst_500": burst_500,
    "burst_2000": burst_2000,
    "saturating": overload.saturating,
    "two_jobs": overload.two_jobs,
    "outage_30s": overload.outage_30s,
}


def main() -> int:
    """Run the named cases, or all; 1 when one misses its bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", choices=list(CASES), help="only this one; may be repeated")
    names: list[str] = parser.parse_args().case or list(CASES)
    collect_rarely()  # As the trainer does; it holds for the control as well.
    results = {name: asyncio.run(_run(name)) for name in names}
    target = ROOT / "var" / "bench" / "gateway.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(target.read_text())["cases"] if target.exists() else {}
    target.write_text(json.dumps({"cases": known | results}, indent=2) + "\n")
    return 0 if all(result["passed"] for result in results.values()) else 1


async def _run(name: str) -> JsonObject:
    figures = await CASES[name]()
    print(name, json.dumps(figures))
    return figures


if __name__ == "__main__":
    sys.exit(main())
