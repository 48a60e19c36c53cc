"""A trainer that gives rollouts out, and the workers that run them, in one event loop."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rft.core.attempt import Attempt
from rft.core.dataset import DatasetRow
from rft.core.errors import RftError
from rft.core.events import Notice, RolloutBegan, StillWaiting
from rft.core.failure import Stage
from rft.core.messages import ToolCall
from rft.rollouts.executor import StepRollouts, run_step
from rft.rollouts.group import StepRow
from rft.rollouts.live import LiveRollouts
from rft.rollouts.setup import Prompts, RolloutSetup
from rft.rollouts.shards.executor import ShardedExecutor
from rft.rollouts.shards.inbox import refused
from rft.rollouts.shards.inbox_wire import Delivery, GiveOut, SealedShard, SettledRollout
from rft.rollouts.shards.told import ShardNotices
from rft.rollouts.shards.worker import OpenedRun, RunSession
from rft.testing.memory_inbox import CalledWorkers, MemoryInbox, MemoryWorkerInbox
from rft.testing.samplers import tool_call_text
from rft.testing.samplers_gateways import FunctionTools
from tests.unit.rollouts.conftest import make_row, nothing_to_close

MakeSetup = Callable[..., RolloutSetup]
TURNS = [tool_call_text("search", '{"q": 1}'), "The answer is 4."]
ROWS = [make_row(index) for index in range(12)]
GROUP = 8
ATTEMPT = Attempt(1.5, "", Stage.TOOL, "search", "call_1", 1, None, 200, 0.25, 0.0, 10, 20)


class SmallInbox(MemoryWorkerInbox):
    """Refuses what is too large, as the platform does and any proxy before it may do."""

    def __init__(self, inbox: MemoryInbox, worker: str, most_bytes: int) -> None:
        super().__init__(inbox, worker)
        self.most_bytes = most_bytes
        self.deliveries: list[Sequence[SettledRollout]] = []
        self.refused: list[int] = []
        """Bytes of each."""

    async def deliver(self, rollouts: Sequence[SettledRollout]) -> Sequence[str]:
        size = len(Delivery(worker=self.worker, rollouts=tuple(rollouts)).model_dump_json().encode())
        if size > self.most_bytes:
            self.refused.append(size)
            raise RftError(f"the platform answered 413 to {size} bytes")
        self.deliveries.append(rollouts)
        return await super().deliver(rollouts)


class NarrowInbox(MemoryInbox):
    """Refuses what is too large, as the platform does."""

    most_bytes: int = 1_500_000

    async def give_out(self, shards: Sequence[SealedShard]) -> None:
        size = len(GiveOut(shards=tuple(shards)).model_dump_json().encode())
        if size > self.most_bytes:
            raise refused(f"the call has {size:,} bytes, more than {self.most_bytes:,}")
        await super().give_out(shards)


@dataclass(slots=True)
class Cluster:
    """A trainer and its workers in one loop."""

    setup: RolloutSetup
    workers: int = 4
    inbox: MemoryInbox = field(default_factory=MemoryInbox)
    notices: list[Notice] = field(default_factory=list[Notice])
    wrote_at_s: list[float] = field(default_factory=list[float])
    """When the executor wrote anything into the event log."""
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    began: list[RolloutBegan] = field(default_factory=list[RolloutBegan])
    ends_take_s: float = 0.0
    """How long it takes to tell customers' servers of ends."""
    problem: Exception | None = None
    """Why no worker can open the run."""
    most_bytes: int | None = None
    """What a delivery may have."""
    name_version: Callable[[int, str | None], None] = lambda version, adapter: None
    live: Callable[[], LiveRollouts] = LiveRollouts
    """What a worker follows its rollouts with."""
    taken: list[str] = field(default_factory=list[str])
    """Rollouts whose attempts were taken."""
    ends: list[MemoryWorkerInbox] = field(init=False)
    sessions: list[RunSession] = field(init=False)
    hints: CalledWorkers = field(init=False)
    executor: ShardedExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.ends = [self._end(f"worker-{number}") for number in range(self.workers)]
        self.sessions = [RunSession(end.worker, end, self.open_run) for end in self.ends]
        self.hints = CalledWorkers([session.work for session in self.sessions])
        told = ShardNotices(self._tell)
        self.executor = ShardedExecutor(self.inbox, self.hints, told, self.attempts.append)

    def _tell(self, event: Notice | StillWaiting) -> None:
        self.wrote_at_s.append(asyncio.get_running_loop().time())
        if isinstance(event, Notice):
            self.notices.append(event)

    def _end(self, worker: str) -> MemoryWorkerInbox:
        return (
            self.inbox.of_worker(worker) if self.most_bytes is None else SmallInbox(self.inbox, worker, self.most_bytes)
        )

    async def open_run(self, announced: str) -> OpenedRun:
        if self.problem is not None:
            raise self.problem
        there = replace(self.setup, prompts=Prompts(), live=self.live())
        return OpenedRun(
            there,
            name_version=self.name_version,
            take_attempts=self._take_attempts,
            aclose=nothing_to_close,
            ends_told=lambda: asyncio.sleep(self.ends_take_s),
        )

    def _take_attempts(self, trace_id: str) -> tuple[Attempt, ...]:
        self.taken.append(trace_id)
        return (replace(ATTEMPT, trace_id=trace_id),)

    async def step(self, rows: Sequence[DatasetRow] = ROWS) -> StepRollouts:
        async def tell(began: RolloutBegan) -> None:
            self.began.append(began)

        return await run_step(
            [StepRow(row, epoch=0) for row in rows],
            setup=replace(self.setup, executor=self.executor, on_begun=tell),
            job_id="ftjob-1",
            job_seed=5,
            step=2,
            group_size=GROUP,
            replacement_share=0.0,
            on_rollout=lambda rollout, _: None,
        )

    def kill(self, number: int) -> None:
        """It says nothing any more, and nothing that it runs goes on."""
        self.ends[number].is_silent = True
        self.sessions[number].is_over = True
        self.hints.workers = [work for work in self.hints.workers if work != self.sessions[number].work]
        for task in self.sessions[number]._shards.values():  # pyright: ignore[reportPrivateUsage]
            task.cancel()


def slow_tools(seconds: Callable[[int], float]) -> FunctionTools:
    async def answer(call: ToolCall, trace_id: str) -> str:
        await asyncio.sleep(seconds(len(tools.calls)))
        return "here"

    tools = FunctionTools(answer)
    return tools


def outcomes(done: StepRollouts) -> Counter[str]:
    return Counter(rollout.trace_id for group in done.groups for rollout in group.rollouts)
