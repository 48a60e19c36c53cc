"""A taskset of `verifiers` 0.4 with one tool; `python -m search_taskset` is its tool server."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import asyncio
import os
from collections.abc import Iterable

import verifiers.v1 as vf


class SearchTools(vf.Toolset[vf.SharedToolsetConfig]):
    """One server for all rollouts."""

    TOOL_PREFIX = None

    @vf.tool
    async def search(self, query: str) -> str:
        """Searches the reports."""
        await asyncio.sleep(float(os.environ["PEER_LATENCY_S"]))
        return os.environ["PEER_OUTPUT"]


class SearchTask(vf.Task):
    """Graded by its answer."""

    @vf.reward
    async def answered(self, trace) -> float:
        """The reward."""
        return float(trace.last_reply == os.environ["PEER_ANSWER"])


class SearchTaskset(vf.Taskset[SearchTask]):
    """The questions."""

    def load(self) -> Iterable[SearchTask]:
        """All of them."""
        for number in range(int(os.environ["PEER_TASKS"])):
            prompt = f"What was the operating margin of company {number}?"
            yield SearchTask(vf.TaskData(prompt=prompt), self.config.task)

    @classmethod
    def toolsets(cls, config):
        """Shared by all tasks."""
        return [SearchTools(vf.SharedToolsetConfig())]


__all__ = ["SearchTaskset"]

if __name__ == "__main__":
    SearchTools.run()
