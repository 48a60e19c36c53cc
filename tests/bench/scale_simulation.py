"""A run with workers on many hosts, in virtual time: the real dispatcher, workers' sessions and limiter.

What a process does for a call costs its core the time that was measured on this machine; samples, calls of tools and
grades take as long as they are said to. Rollouts of five steps are under way at once, as with `max_staleness` 4;
whichever step ends is followed by another.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random

from rft.chat.hermes import HermesChatFormat
from rft.core.dataset import DatasetRow, parse_row
from rft.core.failure import Failure
from rft.core.finished_trace import FinishedTrace
from rft.core.messages import ToolCall, ToolResult
from rft.core.progress import StageCounts
from rft.core.rollout import RolloutKey, Split
from rft.core.spec import Budgets
from rft.egress.limiter import Limiter
from rft.egress.window import FixedWindow
from rft.rollouts.live import LiveRollouts
from rft.rollouts.sampler import FinishReason, Sample, SampleRequest
from rft.rollouts.setup import Prompts, RolloutSetup
from rft.rollouts.shards.executor import ShardedExecutor
from rft.rollouts.shards.inbox_wire import InboxNews, SealedShard, SettledRollout, Taken
from rft.rollouts.shards.told import ShardNotices
from rft.rollouts.shards.worker import OpenedRun, RunSession
from rft.testing.memory_inbox import CalledWorkers, MemoryInbox, MemoryWorkerInbox
from rft.testing.samplers import ModelFreeEngine, no_latency, tool_call_text
from rft.testing.samplers_gateways import FunctionGrader, FunctionTools
from rft.testing.samplers_time import run_in_virtual_time, virtual_clock
from rft.testing.samplers_tokenizer import SPECIALS, ByteTokenizer
from tests.bench.scale_costs import Costs
from tests.bench.scale_inbox import InboxCosts

CALLS = 3
TURN_S, TOOL_S, GRADE_S = 2.0, (1.0, 9.0), 1.0
STEPS_AT_ONCE = 5
CYCLE_S = 40.0
"""Of this the steps under way begin an equal part after each other; it is measured for as long after that."""
_RESULT = SPECIALS.index("<tool_response>")
_TURNS = [*[tool_call_text("search", '{"query": "margin"}')] * CALLS, "The answer is 7."]


@dataclass(slots=True)
class Station:
    """Processes of one kind, a core each: what comes waits for the first that is free."""

    processes: int = 1
    busy_s: float = 0.0
    _free_at_s: list[float] = field(default_factory=list[float])

    def add(self, ms: float) -> float:
        """Give it work; returns how long it takes until that is done."""
        if not self._free_at_s:
            self._free_at_s = [0.0] * self.processes
        now_s, seconds = virtual_clock(), ms / 1e3
        first = min(range(self.processes), key=self._free_at_s.__getitem__)
        done_s = max(now_s, self._free_at_s[first]) + seconds
        self._free_at_s[first] = done_s
        self.busy_s += seconds
        return done_s - now_s

    async def work(self, ms: float) -> None:
        """Return when it is done."""
        await asyncio.sleep(self.add(ms))


@dataclass(frozen=True, slots=True)
class Hosts:
    """How large a run is, and what serves it."""

    hosts: int
    rollouts_per_host: int = 320
    tool_gateways: int = 1
    grader_gateways: int = 1
    apis: int = 1
    database_cores: int = 2
    calls_at_once: int = 1 << 20
    """At the tool's endpoint."""


@dataclass(slots=True)
class Stations:
    """Everything that a rollout passes beside its own host."""

    tool_gateway: Station
    grader_gateway: Station
    api: Station
    database: Station
    trainer: Station
    ingest: Station

    @classmethod
    def of(cls, size: Hosts) -> "Stations":
        """As many processes as the size says."""
        return cls(
            tool_gateway=Station(size.tool_gateways),
            grader_gateway=Station(size.grader_gateways),
            api=Station(size.apis),
            database=Station(size.database_cores),
            trainer=Station(),
            ingest=Station(),
        )

    def by_name(self) -> dict[str, Station]:
        """Of all of them."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class CostlyInbox(MemoryInbox):
    """The inbox whose calls cost the API and the database what was measured."""

    stations: Stations | None = None
    costs: InboxCosts | None = None
    trainer_ms: float = 0.0
    worker_calls: int = 0

    async def give_out(self, shards: Sequence[SealedShard]) -> None:
        """One call."""
        assert self.costs is not None
        await self.spend(self.costs.give_out.api_ms * len(shards), self.costs.give_out.postgres_ms * len(shards))
        await MemoryInbox.give_out(self, shards)

    async def read(
        self, *, seen: Sequence[int], over: Sequence[str], out: Sequence[str] = (), wait_s: float
    ) -> InboxNews:
        """What is read costs the API, then the trainer, before it asks for more."""
        assert self.costs is not None
        assert self.stations is not None
        news = await MemoryInbox.read(self, seen=seen, over=over, out=out, wait_s=wait_s)
        count = len(news.rollouts)
        await self.spend(self.costs.read.api_ms * count, self.costs.read.postgres_ms * count)
        await self.stations.trainer.work(self.trainer_ms * count)
        return news

    async def spend(self, api_ms: float, postgres_ms: float) -> None:
        """At the API, which waits for its database."""
        assert self.stations is not None
        await self.stations.api.work(api_ms)
        await self.stations.database.work(postgres_ms)


@dataclass(slots=True)
class CostlyWorkerInbox(MemoryWorkerInbox):
    """A worker's side of it."""

    def _costs(self) -> tuple[CostlyInbox, InboxCosts]:
        inbox = self.inbox
        assert isinstance(inbox, CostlyInbox)
        assert inbox.costs is not None
        inbox.worker_calls += 1
        return inbox, inbox.costs

    async def take(self, *, is_idle: bool) -> Taken:
        """One call."""
        inbox, costs = self._costs()
        await inbox.spend(costs.take.api_ms, costs.take.postgres_ms)
        return await MemoryWorkerInbox.take(self, is_idle=is_idle)

    async def beat(self, shards: Mapping[str, StageCounts], *, is_leaving: bool = False) -> Sequence[str]:
        """One call."""
        inbox, costs = self._costs()
        await inbox.spend(costs.beat.api_ms, costs.beat.postgres_ms)
        return await MemoryWorkerInbox.beat(self, shards, is_leaving=is_leaving)

    async def deliver(self, rollouts: Sequence[SettledRollout]) -> Sequence[str]:
        """One call, and each rollout beyond the first."""
        inbox, costs = self._costs()
        more = len(rollouts) - 1
        await inbox.spend(
            costs.deliver.api_ms + more * costs.delivered.api_ms,
            costs.deliver.postgres_ms + more * costs.delivered.postgres_ms,
        )
        return await MemoryWorkerInbox.deliver(self, rollouts)


@dataclass(frozen=True, slots=True)
class Simulated:
    """What came of it."""

    in_flight: int
    rollouts_per_s: float
    rollout_s: float
    """From being asked for to its end at the trainer, in the mean."""
    utilisation: dict[str, float]
    """Share of each kind of process that is busy; above 1 where work comes faster than it is done."""
    queued_calls: int
    """At the tool's endpoint, at the end."""
    cpu_ms_per_rollout: float
    """Of this simulation: the real time of the real classes."""

    @property
    def busiest(self) -> str:
        """What limits it, or would first."""
        return max(self.utilisation, key=self.utilisation.__getitem__)


def simulate(size: Hosts, costs: Costs, inbox_costs: InboxCosts) -> Simulated:
    """In virtual time."""
    return run_in_virtual_time(_simulate(size, costs, inbox_costs))


async def _simulate(size: Hosts, costs: Costs, inbox_costs: InboxCosts) -> Simulated:
    stations, in_flight = Stations.of(size), size.hosts * size.rollouts_per_host
    limiter = Limiter(FixedWindow(size.calls_at_once), now=virtual_clock, wall_clock=virtual_clock)
    setup = _setup(stations, costs, limiter)
    inbox = CostlyInbox(stations=stations, costs=inbox_costs, trainer_ms=costs.trainer_ms)

    async def open_run(announced: str) -> OpenedRun:
        del announced
        there = replace(setup, prompts=Prompts(), live=LiveRollouts())
        return OpenedRun(there, lambda version, adapter: None, lambda trace_id: (), _nothing, _nothing)

    names = [f"host-{number}" for number in range(size.hosts)]
    sessions = [
        RunSession(name, CostlyWorkerInbox(inbox, name), open_run, most_rollouts=size.rollouts_per_host)
        for name in names
    ]
    hints = CalledWorkers([session.work for session in sessions])
    executor = ShardedExecutor(inbox, hints, ShardNotices(lambda notice: None))
    began_s, durations_s = time.process_time(), list[float]()

    async def rollout(step: int, slot: int) -> None:
        key = RolloutKey(job_id="ftjob-1", job_seed=5, split=Split.TRAIN, step=step, epoch=0, row_index=slot, index=0)
        asked_s = virtual_clock()
        await executor.run(_row(slot % 512), key, setup, is_grading=True)
        stations.ingest.add(costs.ingest_ms)
        durations_s.append(virtual_clock() - asked_s)

    async def steps(first: int) -> None:
        await asyncio.sleep(CYCLE_S * first / STEPS_AT_ONCE)
        for step in count(first, STEPS_AT_ONCE):
            await asyncio.gather(*(rollout(step, slot) for slot in range(in_flight // STEPS_AT_ONCE)))

    loops = [asyncio.create_task(steps(first)) for first in range(STEPS_AT_ONCE)]
    await asyncio.sleep(CYCLE_S)
    before, busy_before = len(durations_s), {name: station.busy_s for name, station in stations.by_name().items()}
    await asyncio.sleep(CYCLE_S)
    measured = durations_s[before:]
    shares = {
        name: (station.busy_s - busy_before[name]) / CYCLE_S / station.processes
        for name, station in stations.by_name().items()
    }
    queued, cpu_s = limiter.queued, time.process_time() - began_s
    for task in loops:
        task.cancel()
    await asyncio.gather(*loops, return_exceptions=True)
    for session in sessions:
        await session.aclose()
    await executor.aclose()
    return Simulated(
        in_flight=in_flight,
        rollouts_per_s=len(measured) / CYCLE_S,
        rollout_s=sum(measured) / max(1, len(measured)),
        utilisation=shares,
        queued_calls=queued,
        cpu_ms_per_rollout=cpu_s / max(1, len(durations_s)) * 1e3,
    )


def _setup(stations: Stations, costs: Costs, limiter: Limiter) -> RolloutSetup:
    noise, chat_format = Random(7), HermesChatFormat(ByteTokenizer())

    async def call(one: ToolCall, trace_id: str) -> str | Failure | ToolResult:
        del one, trace_id
        await stations.tool_gateway.work(costs.tool_call_ms)
        await limiter.enter("ftjob-1")
        try:
            latency_s = noise.uniform(*TOOL_S)
            await asyncio.sleep(latency_s)
            limiter.learn(None, latency_s=latency_s)
        finally:
            limiter.leave("ftjob-1")
        return "0.173"

    async def score(trace: FinishedTrace, trace_id: str) -> float | Failure:
        del trace, trace_id
        await stations.grader_gateway.work(costs.grade_ms)
        await asyncio.sleep(GRADE_S)
        return 0.5

    tokenizer = ByteTokenizer()
    sampler = _TurnsInOrder([[*tokenizer.encode(text), tokenizer.stop_id] for text in _TURNS])
    return RolloutSetup(
        sampler=sampler,
        chat_format=chat_format,
        tools=FunctionTools(call),
        grader=FunctionGrader(score),
        grader_name="judge",
        budgets=Budgets(),
        temperature=1.0,
        model_name="tiny",
        clock=virtual_clock,
    )


class _TurnsInOrder(ModelFreeEngine):
    """Each rollout's turns one after the other: sampling costs this simulation next to nothing."""

    def __init__(self, turns: Sequence[Sequence[int]]) -> None:
        super().__init__(max_context_tokens=8192, latency=no_latency)
        self._turns = turns

    async def sample(self, request: SampleRequest) -> Sample:
        """After the time that a turn takes."""
        await asyncio.sleep(TURN_S)
        token_ids = tuple(self.turn_ids(request))
        return Sample(token_ids=token_ids, logprobs=(-0.5,) * len(token_ids), finish_reason=FinishReason.STOP)

    def turn_ids(self, request: SampleRequest) -> list[int]:
        """As many have been taken as there are results in the prompt."""
        return list(self._turns[request.prompt_ids.count(_RESULT)])


def _row(index: int) -> DatasetRow:
    tool = '{"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}'
    line = f'{{"messages": [{{"role": "user", "content": "Margin of {index}?"}}], "tools": [{tool}]}}'
    parsed = parse_row(line, line_number=index + 1, index=index)
    assert isinstance(parsed, DatasetRow)
    return parsed


async def _nothing() -> None:
    """There is nothing to close, and nobody to tell."""
