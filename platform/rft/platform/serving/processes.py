"""Which serving processes run: one per base model, started by the first request, as many as the machine bears."""

import asyncio
import hashlib
import logging
import secrets
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rft.core.spec import Engine
from rft.platform.api.errors import Unavailable
from rft.platform.jobs.run_spec import to_vllm_spec
from rft.platform.lifecycle.lease import Lease
from rft.platform.lifecycle.owner import host_of, new_owner
from rft.platform.serving.connections import SpareConnections
from rft.platform.serving.giving_way import ask_to_give_way
from rft.platform.serving.memory import free_bytes, needed_bytes, taken_bytes
from rft.platform.serving.process import ServingProcess, start_process
from rft.platform.serving.repository import ServingRepository
from rft.platform.serving.served_model import ServedModel
from rft.platform.settings import Settings
from rft.platform.store.database import Database
from rft.serving_wire.endpoint_file import read_endpoint
from rft.serving_wire.records import ServingEndpoint, ServingSpec
from rft.vllm_server.command import held_rank

_LOG = logging.getLogger(__name__)
_POLL_S, _TAKE_S = 0.05, 0.25
_COMMAND = (sys.executable, "-m", "rft.serving")
_USUAL_RANK = 64
"""A vLLM server of our own has room for adapters up to this rank; room for larger ones makes all of them slower."""
_SOON_S, _LATER_S = 5.0, 30.0
_ENDING_S = 5.0
"""How long a process takes to end that answers nobody."""
_LAST_ANSWERS_S = 120.0
"""How long those who are being answered are waited for."""


@dataclass(slots=True)
class ServingProcesses:
    """Those of this process of the platform. Others of the same host find them by the files in their folders."""

    settings: Settings
    database: Database
    command: tuple[str, ...] = _COMMAND
    connections: SpareConnections = field(default_factory=SpareConnections)
    _own: dict[Path, ServingProcess] = field(default_factory=dict[Path, ServingProcess])
    _waiting: Counter[Path] = field(default_factory=Counter[Path])
    """Requests that wait until the process of a folder listens."""
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _owner: str = field(default_factory=new_owner)

    @asynccontextmanager
    async def serving(self, model: ServedModel) -> AsyncGenerator[ServingEndpoint]:
        """Where the model's process listens; it is not stopped for another model while this is entered.

        Raises Unavailable with the reason, and when to ask again.
        """
        folder = self.folder_of(model)
        self._waiting[folder] += 1
        try:
            endpoint = await self._endpoint(model, folder)
        finally:
            self._waiting[folder] -= 1
        process = self._own.get(folder)
        if process is None:
            yield endpoint
            return
        process.has_listened = True
        process.answering += 1
        try:
            yield endpoint
        finally:
            process.answering -= 1
            process.used_at = time.monotonic()

    async def give_way(self, is_urgent: Callable[[], bool]) -> None:
        """Ask all that listen to end once they answer nobody, and wait for that: up to a bound, or until it is urgent.

        Others of this host may be in the middle of an answer of theirs.
        """
        give_up_at = time.monotonic() + _LAST_ANSWERS_S
        listening = {folder: endpoint for folder in self._own if (endpoint := read_endpoint(folder)) is not None}
        await asyncio.gather(*(ask_to_give_way(endpoint) for endpoint in listening.values()))
        while any(not self._own[folder].has_ended for folder in listening):
            if is_urgent() or time.monotonic() > give_up_at:
                return
            await asyncio.sleep(_POLL_S)

    async def aclose(self) -> None:
        """Stop all, whomever they answer."""
        self.connections.close()
        await asyncio.gather(*(process.stop() for process in self._own.values()), return_exceptions=True)

    def folder_of(self, model: ServedModel) -> Path:
        """Where its process says how it is reached."""
        told, rank = f"{model.base_model}\n{model.chat.model_dump_json()}", self._rank(model)
        if rank > _USUAL_RANK and self.settings.engine == Engine.VLLM and not self.settings.vllm_servers:
            told += f"\n{rank}"
        return self.settings.serving_dir / hashlib.sha256(told.encode()).hexdigest()[:16]

    async def _endpoint(self, model: ServedModel, folder: Path) -> ServingEndpoint:
        found = read_endpoint(folder)
        if found is not None:
            return found
        give_up_at = time.monotonic() + self.settings.serving_start_s
        await self._ensure_started(model, folder)
        while (found := read_endpoint(folder)) is None:
            process = self._own.get(folder)
            if process is not None and process.has_ended and not process.has_listened:
                raise _unavailable(f"its process {process.why_ended()}", "serving_failed", _LATER_S)
            if time.monotonic() > give_up_at:
                if process is not None:
                    # Two models that take longer to load than this would end each other's loading for ever.
                    process.expected_until = time.monotonic() + 2 * _SOON_S
                raise _unavailable("it is being loaded", "model_loading", _SOON_S)
            if process is None or process.has_ended:
                # As soon as another's lease is free: of our last one, or of a process of the platform that has gone.
                await self._ensure_started(model, folder)
                await asyncio.sleep(_TAKE_S)
            else:
                await asyncio.sleep(_POLL_S)
        return found

    async def _ensure_started(self, model: ServedModel, folder: Path) -> None:
        async with self._starting:
            process = self._own.get(folder)
            if read_endpoint(folder) is not None or (process is not None and not process.has_ended):
                return
            await self._make_room(model)
            await _to_its_end(self._start(model, folder))

    async def _start(self, model: ServedModel, folder: Path) -> None:
        lease = await self._take(folder)
        if lease is None:
            return  # Another process of the platform is starting it.
        try:
            await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True, mode=0o700)
            spec, needed = self._spec(model, folder), self._needed_bytes(model)
            process = await start_process(spec, lease, self.settings, self.database, self.command)
            process.needed_bytes = needed
            self._own[folder] = process
        except Exception as error:
            async with self.database.transaction() as connection:
                await ServingRepository(connection).give_back(lease)
            if not isinstance(error, OSError):
                raise
            raise _unavailable(f"its process cannot be started: {error}", "serving_failed", _LATER_S) from error

    async def _take(self, folder: Path) -> Lease | None:
        async with self.database.transaction() as connection:
            return await ServingRepository(connection).take(
                f"{host_of(self._owner)}/{folder.name}", owner=self._owner, ttl_s=self.settings.lease_ttl_s
            )

    async def _make_room(self, model: ServedModel) -> None:
        """Stop what nobody uses, the longest unused first. Raises Unavailable."""
        while (problem := self._no_room(model)) is not None:
            idle = [process for process in self._running() if self._is_idle(process)]
            if not idle or not await _end_unless_it_answers(min(idle, key=_used_at)):
                raise problem

    def _no_room(self, model: ServedModel) -> Unavailable | None:
        limit = self.settings.serving_models
        if len(self._running()) >= limit:
            what = (
                f"{limit} other base models are answering or being loaded, as many as may be at a time"
                " (RFT_SERVING_MODELS)"
            )
            return _unavailable(what, "serving_slots_in_use", _SOON_S)
        free, needed = free_bytes(), self._needed_bytes(model)
        if free is None or not needed:
            return None
        # What those have not read yet that are being loaded, the system calls free.
        promised = sum(_to_be_read(process) for process in self._running() if _is_loading(process))
        free, needed = max(0, free - promised), needed + self.settings.serving_reserve_bytes
        if free >= needed:
            return None
        who = (
            "training jobs and models that are being loaded have the rest"
            if promised
            else "training jobs have the rest"
        )
        what = (
            f"it needs {needed / 2**30:.1f} GiB of memory, with what stays reserved, and {free / 2**30:.1f} GiB are"
            f" free: {who}"
        )
        return _unavailable(what, "not_enough_memory", _LATER_S)

    def _needed_bytes(self, model: ServedModel) -> int:
        """What its process takes of this machine's memory; 0 where that is unknown."""
        directory = Path(model.base_model)
        return needed_bytes(directory) if self.settings.engine == "transformers" and directory.is_dir() else 0

    def _is_idle(self, process: ServingProcess) -> bool:
        """Whether nobody is answered by it, waits for it, or was told to come again."""
        is_used = process.answering > 0 or self._waiting[process.folder] > 0
        return not is_used and time.monotonic() > process.expected_until

    def _running(self) -> list[ServingProcess]:
        return [process for process in self._own.values() if not process.has_ended]

    def _rank(self, model: ServedModel) -> int:
        """The largest that its process holds."""
        return held_rank(max(_USUAL_RANK, model.rank))

    def _spec(self, model: ServedModel, folder: Path) -> ServingSpec:
        settings = self.settings
        return ServingSpec(
            base_model=model.base_model,
            chat=model.chat,
            engine=settings.engine,
            # The GPUs that jobs are given are none of its own.
            vllm=to_vllm_spec(settings).model_copy(update={"gpu_memory_share": settings.vllm_gpu_memory_share}),
            lora_rank=self._rank(model),
            torch_threads=settings.torch_threads,
            folder=str(folder),
            idle_s=settings.serving_idle_s,
            requests_at_once=settings.serving_requests_at_once,
            queue_s=settings.serving_queue_s,
            cached_tokens=settings.serving_cached_tokens,
            token=secrets.token_urlsafe(24),
            vllm_api_key=settings.vllm_api_key,
        )


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Also where who waits for it hangs up: a lease, or a process, would be left that nobody knows of."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():  # Who stops the tasks of a run cancels them until they have ended.
            with suppress(asyncio.CancelledError):
                await asyncio.wait((task,))
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.warning("a serving process for a client that hung up was not started: %s", error)
        raise


async def _end_unless_it_answers(process: ServingProcess) -> bool:
    """Whether it has ended: other processes of the platform may be in the middle of an answer of its."""
    endpoint = read_endpoint(process.folder)
    if endpoint is None:
        await process.stop()
        return True
    await ask_to_give_way(endpoint)
    return await process.child.wait(_ENDING_S)


def _is_loading(process: ServingProcess) -> bool:
    return not process.has_listened and read_endpoint(process.folder) is None


def _to_be_read(process: ServingProcess) -> int:
    return max(0, process.needed_bytes - taken_bytes(process.child.pid))


def _used_at(process: ServingProcess) -> float:
    return process.used_at


def _unavailable(why: str, code: str, retry_after_s: float) -> Unavailable:
    return Unavailable(f"The model cannot answer now: {why}.", code=code, retry_after_s=retry_after_s)
