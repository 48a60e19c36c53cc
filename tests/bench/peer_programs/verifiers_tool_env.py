"""Rollouts of `verifiers` 0.1.9's ToolEnv; told on the last line of standard output. Runs in its environment.

The only argument is the order, a JSON object: see `tests.bench.peer_rollouts`.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import asyncio
import json
import sys
import time

import verifiers as vf
from datasets import Dataset
from verifiers.types import ClientConfig
from verifiers.utils.client_utils import setup_client

ORDER = json.loads(sys.argv[1])


async def search(query: str) -> str:
    """Searches the reports.

    Args:
        query: What to look for.
    """
    await asyncio.sleep(ORDER["latency_s"])
    return ORDER["output"]


async def answered(completion, **_) -> float:
    """The reward."""
    return float(completion[-1].get("content") == ORDER["answer"])


async def main() -> None:
    """A warm-up, then the rollouts that count."""
    rows = [
        {"question": f"What was the operating margin of company {number}?", "answer": ORDER["answer"]}
        for number in range(ORDER["tasks"])
    ]
    environment = vf.ToolEnv(
        tools=[search], max_turns=10, dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[answered])
    )
    client = setup_client(ClientConfig(api_base_url=ORDER["model_url"], api_key_var="PEER_API_KEY"))
    each = ORDER["rollouts"] // ORDER["tasks"]
    inputs = [one for one in environment.get_dataset().to_list() for _ in range(each)]

    async def generate(some):
        limit = ORDER["at_once"] or -1
        return await environment.generate(some, client, ORDER["model"], max_concurrent=limit, use_tqdm=False)

    await generate(inputs[: ORDER["warm_up"]])
    began_s, cpu_s = time.perf_counter(), time.process_time()
    outputs = await generate(inputs)
    told = {"wall_s": time.perf_counter() - began_s, "cpu_s": time.process_time() - cpu_s}
    states = outputs["state"]
    told["rollouts"] = len(states)
    told["answered"] = sum(reward == 1 for reward in outputs["reward"])
    told["turns"] = sum(len(state["trajectory"]) for state in states)
    told["tool_calls"] = sum(message["role"] == "tool" for state in states for message in state["completion"])
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main())
