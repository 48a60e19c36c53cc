"""Rollouts of `verifiers` 0.4's `null` harness; told on the last line of standard output. Runs in its environment.

The only argument is the order, a JSON object: see `tests.bench.peer_rollouts`.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import asyncio
import json
import os
import resource
import sys
import time
from pathlib import Path

import verifiers.v1 as vf

ORDER = json.loads(sys.argv[1])


def cpu_s() -> float:
    """Of this process and of all that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


async def main() -> None:
    """A warm-up, then the rollouts that count."""
    agent = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
    config = vf.SingleAgentEnvConfig.model_validate({"taskset": {"id": "search-taskset"}, "agent": agent})
    environment = vf.load_environment(config)
    context = vf.ModelContext(model=ORDER["model"], client=vf.EvalClientConfig(base_url=ORDER["model_url"]))
    tasks = list(environment.taskset)
    limit = asyncio.Semaphore(ORDER["at_once"])

    async def run(count):
        slots = [environment.slots(tasks[number % len(tasks)])[0] for number in range(count)]
        return await asyncio.gather(*(environment.run_slot(slot, context, limit) for slot in slots))

    async with environment.serving():
        await run(ORDER["warm_up"])
        began_s, began_cpu_s = time.perf_counter(), cpu_s()
        episodes = await run(ORDER["rollouts"])
        told = {"wall_s": time.perf_counter() - began_s, "cpu_s": cpu_s() - began_cpu_s}
    traces = [trace for episode in episodes for trace in episode.traces]
    for trace in traces:
        if trace.has_error:
            print(trace.last_error, file=sys.stderr)
    told["rollouts"] = len(traces)
    told["answered"] = sum(trace.reward == 1 for trace in traces)
    told["turns"] = sum(trace.num_turns for trace in traces)
    told["tool_calls"] = sum(len(trace.tool_messages) for trace in traces)
    print(json.dumps(told))


if __name__ == "__main__":
    os.environ.update(
        PYTHONPATH=str(Path(__file__).parent),  # The tool server imports the taskset, too.
        PEER_LATENCY_S=str(ORDER["latency_s"]),
        PEER_OUTPUT=ORDER["output"],
        PEER_ANSWER=ORDER["answer"],
        PEER_TASKS=str(ORDER["tasks"]),
    )
    asyncio.run(main())
