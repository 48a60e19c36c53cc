"""Runs shards in a rollout worker: each rollout is handed over as soon as it has ended."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from rft.core.attempt import Attempt
from rft.core.errors import RftError, RunPaused
from rft.core.failure import Failure
from rft.core.progress import StageCounts
from rft.rollouts.loop import PendingGrade, run_begun
from rft.rollouts.sampler import keep_policy, release_policy
from rft.rollouts.setup import RolloutSetup
from rft.rollouts.shards.handing_over import failed_rollout, platform_failure
from rft.rollouts.shards.inbox import InboxDown, StaleLaunch, WorkerInbox
from rft.rollouts.shards.inbox_wire import BEAT_S, SealedShard
from rft.rollouts.shards.outbox import Outbox
from rft.rollouts.shards.trying_again import Patience
from rft.rollouts.shards.wire import LARGEST, Settled, Shard, ShardRollout
from rft.rollouts.shards.worker_load import WorkerLoad

_LOG = logging.getLogger(__name__)
_TAKE_MORE_S = 1.0
"""How often a worker that has room looks for shards that nobody has taken: so small ones do not wait for large ones,
nor for a message that was lost. Whoever got a message of their own comes first."""
_REFUSAL_S = 60.0
"""A worker that cannot run a job takes no shard of it for so long."""


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """A run as a worker sees it."""

    setup: RolloutSetup
    name_version: Callable[[int, str | None], None]
    """What servers call a policy version; None: the base model."""
    take_attempts: Callable[[str], tuple[Attempt, ...]]
    """The calls that were tried for a rollout, once."""
    aclose: Callable[[], Awaitable[None]]
    ends_told: Callable[[], Awaitable[None]]
    """Returns once the ends of rollouts so far are told to customers' servers, or could not be told in time."""


@dataclass(slots=True)
class RunSession:
    """One launch of a run in one worker. For one event loop."""

    worker: str
    inbox: WorkerInbox
    open_run: Callable[[str], Awaitable[OpenedRun]]
    """From what the trainer announced. May raise anything: then the worker cannot run this job."""
    most_rollouts: int = 4 * LARGEST
    """So many at once at most, beyond the one shard of each message."""
    load: WorkerLoad = field(default_factory=WorkerLoad)
    """Of its process."""
    on_accepted: Callable[[], None] = lambda: None
    """Called once, when the inbox has taken this launch for the one that counts."""
    is_accepted: bool = False
    is_over: bool = False
    """The launch is stale: nothing of it is run any more."""
    shards_run: int = 0
    """How many it began."""
    _shards: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, asyncio.Task[None]])
    """What it is at; cancelling one breaks the shard off, also while the run is being opened."""
    _rollouts: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Public ids of each that was read."""
    _beater: asyncio.Task[None] | None = None
    _taker: asyncio.Task[None] | None = None
    _more: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    """Shards that it took beside those of messages."""
    _opening: asyncio.Task[OpenedRun] | None = None
    _refuses_until_s: float = 0.0
    _working: int = 0
    """Calls of `work` that have not returned."""
    _patience: Patience = field(init=False)
    _outbox: Outbox = field(init=False)

    def __post_init__(self) -> None:
        self._patience = Patience(
            lambda problem: _LOG.warning("the inbox cannot be reached: %s", problem),
            lambda down_s: _LOG.warning("the inbox is reached again after %.0f s", down_s),
        )
        self._outbox = Outbox(
            self.inbox, self._patience, self._ends_told, self._drop, self._give_up, refuse=self._take_nothing
        )

    @property
    def is_idle(self) -> bool:
        """Whether it is at no shard, and looks for none."""
        return not self._shards and not self._working

    async def work(self) -> None:
        """Run one shard, if nobody has it: the next message may be another job's. Raises nothing but cancellation.

        Behind one that kept all else waiting, the next.
        """
        self._working += 1
        try:
            if self._takes_nothing:
                return
            while (shard := await self._patience.until_done(self._take)) is not None:
                await self._run_shard(shard)
                if not shard.is_alone or self._takes_nothing:
                    break
        except StaleLaunch as stale:
            self._give_up(str(stale))
        except RunPaused as refused:
            self._refuse(refused)
        finally:
            self._working -= 1

    async def _take(self) -> SealedShard | None:
        """A shard that may run now, which counts from here on."""
        async with self.load.taking:
            if self._takes_nothing or self.load.is_closed_to(self):
                return None
            taken = await self.inbox.take(is_idle=self.load.is_idle)
            self.load.reserve(self, is_one_waiting=taken.is_one_waiting)
            shard = taken.shard
            if shard is not None:
                self.load.held[shard.id] = shard.is_alone
        if not self.is_accepted:
            self.is_accepted = True
            self.on_accepted()
        return shard

    async def _take_more(self) -> None:
        try:
            while self._shards:
                await asyncio.sleep(_TAKE_MORE_S)
                while self._has_room and (shard := await self._patience.until_done(self._take)) is not None:
                    task = asyncio.create_task(self._run_shard(shard))
                    self._more.add(task)
                    task.add_done_callback(self._more.discard)
                    # Also of one that was cancelled before it began.
                    task.add_done_callback(lambda _, id_=shard.id: self.load.end(id_))
                    await asyncio.sleep(0)  # Until it has begun, it takes up no room.
        except StaleLaunch as stale:
            self._give_up(str(stale))
        except RunPaused as refused:
            self._refuse(refused)

    def _refuse(self, problem: RunPaused) -> None:
        """Ask for nothing more of the job for a while."""
        _LOG.warning("no shard can be taken: %s", problem)
        self._take_nothing()

    def _take_nothing(self) -> None:
        self._refuses_until_s = _now_s() + _REFUSAL_S

    @property
    def _takes_nothing(self) -> bool:
        """It is over, or was refused something a moment ago."""
        return self.is_over or _now_s() < self._refuses_until_s

    @property
    def _has_room(self) -> bool:
        if self._takes_nothing or not self._shards or self.load.is_closed_to(self):
            return False
        unread = len(self._shards) - len(self._rollouts)
        return sum(map(len, self._rollouts.values())) + (unread + 1) * LARGEST <= self.most_rollouts

    async def aclose(self) -> None:
        """Break off what runs, and let it be given out to others at once."""
        left, was_over, self.is_over = list(self._shards), self.is_over, True
        self.load.release(self)
        tasks = (*self._shards.values(), self._outbox.task, self._beater, self._taker, *self._more)
        await _cancelled([task for task in tasks if task is not None])
        if left and not was_over:
            with suppress(StaleLaunch, InboxDown, RunPaused):
                await self.inbox.beat(dict.fromkeys(left, StageCounts()), is_leaving=True)
        if self._opening is not None:
            self._opening.cancel()
            opened, *_ = await asyncio.gather(self._opening, return_exceptions=True)
            if isinstance(opened, OpenedRun):
                await opened.aclose()

    async def _run_shard(self, sealed: SealedShard) -> None:
        if self.is_over:  # Since it was asked for. Others run it once its lease has ended.
            self.load.end(sealed.id)
            return
        running = self._shards[sealed.id] = asyncio.create_task(self._run_held(sealed))
        self.shards_run += 1
        if self._beater is None or self._beater.done():
            self._beater = asyncio.create_task(self._beat())
        if self._taker is None or self._taker.done():
            self._taker = asyncio.create_task(self._take_more())
        try:
            await asyncio.wait([running])
            if not running.cancelled():
                running.result()
            await self._outbox.emptied()
        finally:
            await _cancelled([running])
            self._shards.pop(sealed.id, None)
            self._rollouts.pop(sealed.id, None)
            self.load.end(sealed.id)

    async def _run_held(self, sealed: SealedShard) -> None:
        shard = Shard.model_validate_json(sealed.body)
        self._rollouts[sealed.id] = tuple(one.began.trace_id for one in shard.rollouts)
        run = await self._opened()
        if isinstance(run, Failure):
            self._outbox.hand_over(sealed.id, *(_refused(shard, one, run) for one in shard.rollouts))
        else:
            run.setup.prompts.forget()
            await self._run_rollouts(run, sealed.id, shard)

    async def _run_rollouts(self, run: OpenedRun, shard_id: str, shard: Shard) -> None:
        """Each keeps its policy version from here: another shard's rollouts may end before these sample."""
        sampler, tasks = run.setup.sampler, list[asyncio.Task[None]]()
        try:
            for one in shard.rollouts:
                run.name_version(one.began.policy_version, shard.adapter)
                keep_policy(sampler, one.began.trace_id, one.began.policy_version)
            tasks += [asyncio.create_task(self._run_one(run, shard_id, shard, one)) for one in shard.rollouts]
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await _cancelled(tasks)
            for one in shard.rollouts:
                release_policy(sampler, one.began.trace_id)  # A task that was cancelled early has not done so.

    async def _run_one(self, run: OpenedRun, shard_id: str, shard: Shard, one: ShardRollout) -> None:
        trace_id = one.began.trace_id
        try:
            ended = await run_begun(shard.rows[one.row], one.began, run.setup, is_grading=shard.is_grading)
            settled = Settled(ungraded=ended.ended) if isinstance(ended, PendingGrade) else Settled(rollout=ended)
        except Exception as problem:  # Else it would be given out again for ever: nobody hears of a task's exception.
            _LOG.exception("rollout %s broke on an exception of ours", trace_id)
            failure = platform_failure(f"The rollout worker {self.worker} broke: {type(problem).__name__}: {problem}")
            _, settled = _refused(shard, one, failure)
        finally:
            attempts = run.take_attempts(trace_id)  # Also those of a rollout that was broken off: nobody else asks.
        self._outbox.hand_over(shard_id, (trace_id, settled.model_copy(update={"attempts": attempts})))

    async def _ends_told(self) -> None:
        run = self._open_now
        if run is not None:
            try:
                await run.ends_told()
            except Exception:
                _LOG.exception("ends of rollouts may not have been told")

    @property
    def _open_now(self) -> OpenedRun | None:
        opening = self._opening
        if opening is None or not opening.done() or opening.cancelled() or opening.exception() is not None:
            return None
        return opening.result()

    def _stages(self) -> dict[str, StageCounts]:
        """Of every shard that it is at."""
        run = self._open_now
        if run is None:
            return dict.fromkeys(self._shards, StageCounts())
        return {id_: run.setup.live.stages(self._rollouts.get(id_, ())) for id_ in self._shards}

    async def _beat(self) -> None:
        """A beat whose connection leads nowhere keeps none of the next ones back."""
        while self._shards and not self.is_over:  # Again: one may have begun while the last beats were cancelled.
            beats = set[asyncio.Task[None]]()
            try:
                while self._shards and not self.is_over:
                    await asyncio.sleep(BEAT_S)
                    beats = {beat for beat in beats if not beat.done()} | {asyncio.create_task(self._say_alive())}
            finally:
                await _cancelled(list(beats))

    async def _say_alive(self) -> None:
        try:
            gone = await self.inbox.beat(self._stages())
        except StaleLaunch as stale:
            self._give_up(str(stale))
        except RftError as problem:
            _LOG.warning("the inbox did not hear that this worker lives: %s", problem)
        else:
            for shard_id in gone:
                self._drop(shard_id)

    async def _opened(self) -> OpenedRun | Failure:
        """The run, opened once; a failure in words where this worker cannot run it."""
        if self._opening is None or _has_failed(self._opening):  # Also where nobody was left to hear of it.
            self._opening = asyncio.create_task(self._open())
        try:
            return await asyncio.shield(self._opening)
        except StaleLaunch:
            raise
        except Exception as problem:
            _LOG.exception("this worker cannot run the job")
            self._opening = None
            self._take_nothing()
            message = f"The rollout worker {self.worker} cannot run this job: {problem}"
            return platform_failure(message)

    async def _open(self) -> OpenedRun:
        return await self.open_run(await self._patience.until_done(self.inbox.run))

    def _drop(self, shard_id: str) -> None:
        """Nothing of this shard counts any more."""
        if shard_id in self._shards:
            self._shards[shard_id].cancel()

    def _give_up(self, reason: str) -> None:
        if not self.is_over:
            _LOG.info("nothing of this launch is run any more: %s", reason)
        self.is_over = True
        for shard_id in list(self._shards):
            self._drop(shard_id)


def _refused(shard: Shard, one: ShardRollout, failure: Failure) -> tuple[str, Settled]:
    rollout = failed_rollout(one.began, shard.rows[one.row].messages, failure)
    return one.began.trace_id, Settled(rollout=rollout)


def _has_failed(opening: asyncio.Task[OpenedRun]) -> bool:
    """Whether a new try may end otherwise: a launch that is stale stays so."""
    return opening.done() and not opening.cancelled() and not isinstance(opening.exception(), StaleLaunch | None)


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
