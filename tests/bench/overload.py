"""The cases in which the endpoint is the weakest link: it saturates, is shared, or is gone for a while."""

import asyncio
import time
from collections import Counter
from typing import cast

import aiohttp
from load import ITEM, SEARCH, endpoint_process, tool_call

from rft.core.attempt import Attempt
from rft.core.base import JsonObject
from rft.core.messages import ToolResult
from rft.core.spec import ToolServer
from rft.egress.client import HttpClient
from rft.egress.endpoint_client import EndpointClient
from rft.egress.limits import Limits
from rft.testing.endpoint import ScriptedEndpoint, ScriptedTools
from rft.testing.loopback import LoopbackEndpoint
from rft.tool_gateway.gateway import HttpToolGateway

CAPACITY = 40
SERVICE_S = 0.2
CALLERS = 200
RAMP_UP_S = 8.0
MEASURE_S = 12.0
SWEEP = (20, 30, 40, 50, 60)
SWEEP_S = 4.0
CEILING = 512


class Callers:
    """Callers that call again and again until told to stop."""

    def __init__(self, url: str, limits: Limits, jobs: dict[str, int]) -> None:
        self.records: list[Attempt] = []
        self.good: Counter[str] = Counter()
        self.failed: list[ToolResult] = []
        self._client = EndpointClient(HttpClient(), limits=limits, on_attempt=self.records.append)
        self._url, self._jobs = url, jobs

    async def __aenter__(self) -> "Callers":
        await self._client.__aenter__()
        self._tasks = [
            asyncio.create_task(self._call_on(job, number))
            for job, count in self._jobs.items()
            for number in range(count)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.aclose()

    def reset(self) -> None:
        """Count from here."""
        self.records.clear()
        self.good.clear()

    async def _call_on(self, job: str, number: int) -> None:
        gateway = HttpToolGateway(self._client, [ToolServer(name="search", server_url=self._url)], job_id=job)
        turn = 0
        while True:
            turn += 1
            trace_id = f"trace_{job}_{number}"
            result = await gateway.call(tool_call(turn), tools=[SEARCH], item=ITEM, trace_id=trace_id)
            if result.failure is None:
                self.good[job] += 1
            else:
                self.failed.append(result)


async def _stats(url: str) -> int:
    """Most calls inside at once since the last question, as counted at the endpoint."""
    async with aiohttp.ClientSession() as session, session.get(url.replace("/tool", "/stats")) as reply:
        return cast("int", (await reply.json())["max_in_flight"])


async def saturating() -> JsonObject:
    """An endpoint that bears 40 calls at once."""
    arguments = ("--latency", str(SERVICE_S), "--capacity", str(CAPACITY))
    sweep: dict[int, float] = {}
    for limit in SWEEP:
        async with endpoint_process(*arguments) as url, Callers(url, Limits.fixed(limit), {"job": CALLERS}) as callers:
            await asyncio.sleep(1.0)
            callers.reset()
            await asyncio.sleep(SWEEP_S)
            sweep[limit] = callers.good["job"] / SWEEP_S
    async with endpoint_process(*arguments) as url, Callers(url, Limits.adaptive(CEILING), {"job": CALLERS}) as callers:
        await asyncio.sleep(RAMP_UP_S)
        ramp_up_peak = await _stats(url)
        callers.reset()
        await asyncio.sleep(MEASURE_S)
        goodput, peak = callers.good["job"] / MEASURE_S, await _stats(url)
        errors = sum(record.code is not None for record in callers.records) / len(callers.records)
    ratio, overshoot = goodput / max(sweep.values()), peak / CAPACITY - 1.0
    return {
        "best_fixed_limit": max(sweep, key=lambda limit: sweep[limit]),
        "best_fixed_goodput": round(max(sweep.values()), 1),
        "goodput": round(goodput, 1),
        "goodput_ratio": round(ratio, 3),
        "peak_in_flight": peak,
        "peak_in_flight_ramp_up": ramp_up_peak,
        "overshoot": round(overshoot, 3),
        "error_share": round(errors, 4),
        "bar": {"goodput_ratio": 0.85, "overshoot": 0.25, "error_share": 0.01},
        "passed": ratio >= 0.85 and overshoot <= 0.25 and errors <= 0.01,
    }


async def two_jobs() -> JsonObject:
    """Two jobs on one endpoint, one with four times the callers of the other."""
    arguments = ("--latency", str(SERVICE_S), "--capacity", str(CAPACITY))
    jobs = {"large": 160, "small": 40}
    async with endpoint_process(*arguments) as url, Callers(url, Limits.adaptive(CEILING), jobs) as callers:
        await asyncio.sleep(RAMP_UP_S)
        callers.reset()
        await asyncio.sleep(MEASURE_S)
        shares = {job: callers.good[job] / callers.good.total() for job in jobs}
    return {
        "shares": {job: round(share, 3) for job, share in shares.items()},
        "goodput": round(callers.good.total() / MEASURE_S, 1),
        "bar": {"smallest_share": 0.4, "largest_share": 0.6},
        "passed": all(0.4 <= share <= 0.6 for share in shares.values()),
    }


async def outage_30s(outage_s: float = 30.0) -> JsonObject:
    """200 rollouts of five calls; the endpoint dies in the middle and comes back after half a minute."""
    tools = ScriptedTools({"search": lambda arguments, item: "0.173"})
    server = await LoopbackEndpoint(ScriptedEndpoint(tools, latency_s=0.1)).__aenter__()
    client = EndpointClient(HttpClient(), limits=Limits.adaptive(CEILING))
    gateway = HttpToolGateway(client, [ToolServer(name="search", server_url=server.tool_url)])
    failed = 0

    async def rollout(number: int) -> None:
        nonlocal failed
        for turn in range(5):
            await asyncio.sleep(0.1)
            result = await gateway.call(tool_call(turn), tools=[SEARCH], item=ITEM, trace_id=f"trace_{number}")
            if result.failure is not None:
                failed += 1
                return

    started_s = time.perf_counter()
    async with client:
        step = asyncio.gather(*(rollout(number) for number in range(200)))
        await asyncio.sleep(0.5)
        await server.__aexit__()
        await asyncio.sleep(outage_s)
        async with LoopbackEndpoint(server.endpoint, port=server.port):
            back_s = time.perf_counter()
            await step
    recovery_s = time.perf_counter() - back_s
    return {
        "excluded": failed,
        "outage_s": outage_s,
        "step_s": round(time.perf_counter() - started_s, 2),
        "after_recovery_s": round(recovery_s, 2),
        "bar": {"excluded": 0},
        "passed": failed == 0,
    }
