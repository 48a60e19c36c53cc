"""A scripted endpoint in a process of its own: prints the URL of its tool, serves until it is terminated.

`GET /stats` answers how many calls came and how many were inside at once since the last such question.
"""

import argparse
import asyncio
import json
import random

from rft.testing.endpoint import ScriptedEndpoint, ScriptedTools
from rft.testing.faults import Fault, HttpAnswer, ReceivedCall, Saturation
from rft.testing.loopback import LoopbackEndpoint


class CountingEndpoint(ScriptedEndpoint):
    """Tells its counts."""

    async def answer(self, call: ReceivedCall) -> HttpAnswer | Fault:
        if call.path != "/stats":
            return await super().answer(call)
        stats = {"calls": len(self.calls) - 1, "max_in_flight": self.max_in_flight}
        self.calls.clear()
        self.max_in_flight = self.in_flight - 1
        return HttpAnswer(200, json.dumps(stats).encode())


async def _serve(latency_s: float, capacity: int) -> None:
    tools = ScriptedTools({"search": lambda arguments, item: f"{arguments['query']}: 0.173 " * 10})
    endpoint = CountingEndpoint(tools, latency_s=latency_s)
    if capacity:
        model, noise = Saturation(capacity, latency_s, refuses_above=2 * capacity), random.Random(7)
        endpoint.faults = model

        def latency(in_flight: int) -> float:
            return model.latency_s(in_flight) * noise.uniform(0.7, 1.3)

        endpoint.latency_s = latency
    async with LoopbackEndpoint(endpoint) as server:
        print(server.tool_url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--capacity", type=int, default=0)
    arguments = parser.parse_args()
    asyncio.run(_serve(arguments.latency, arguments.capacity))
