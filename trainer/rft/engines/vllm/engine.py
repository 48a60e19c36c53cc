"""The engine over independent vLLM servers: a policy version is an adapter that all of them know.

Never several replicas behind one address: an adapter would reach only the one that answers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from rft.core.errors import RunPaused, SamplerError
from rft.egress.client import HttpClient
from rft.engines.vllm.adapters import AdapterFolder
from rft.engines.vllm.client import ServerClient, ServerLost, ServerRefused, open_http
from rft.engines.vllm.options import EngineOptions, ServerAddress
from rft.engines.vllm.pool import Server, ServerPool, ServerUnfit
from rft.engines.vllm.served import judge_served
from rft.engines.vllm.served_versions import ServedVersions
from rft.rollouts.sampler import Sample, SampleRequest


class VllmEngine:
    """An `Engine`. Its event loop is the one of the first call."""

    def __init__(
        self,
        addresses: Sequence[ServerAddress],
        adapters: AdapterFolder | ServedVersions,
        options: EngineOptions,
        *,
        on_close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`adapters`: where published ones lie for the servers; or what names those that another process publishes."""
        self._addresses, self._options, self._on_close = addresses, options, on_close
        self._versions = adapters if isinstance(adapters, ServedVersions) else ServedVersions(adapters)
        self._retiring: set[asyncio.Task[None]] = set()
        self._starting: asyncio.Task[tuple[HttpClient, ServerPool]] | None = None
        self._servers: ServerPool | None = None
        """Once one was up."""
        self._is_closed = False

    async def open(self) -> None:
        """Wait until a server is up, which the first call does otherwise. Raises RunPaused."""
        await self._pool()

    async def open_all(self) -> None:
        """Wait until all servers of our own are up, too. Raises RunPaused, SamplerError."""
        pool = await self._pool()
        if not await pool.own_are_up(self._options.start_patience_s):
            raise _unreachable(pool)

    @property
    def policy_version(self) -> int:
        """The step that produced the weights that new rollouts sample from."""
        return self._versions.use.newest

    @property
    def max_context_tokens(self) -> int:
        """Prompt plus completion at most."""
        return self._options.max_context_tokens

    @property
    def live_versions(self) -> frozenset[int]:
        """The versions that can be sampled from."""
        return self._versions.use.live

    def adapter_name(self, version: int) -> str | None:
        """What the servers call the policy version; None for the base model."""
        return self._versions.adapter_name(version)

    async def sample(self, request: SampleRequest) -> Sample:
        """One sample. Cancelling the task frees the server. Raises SamplerError."""
        self._check(request)
        version = self.policy_version if request.policy_version is None else request.policy_version
        holder = request.rollout_id or f"request {id(request)}"
        self.rollout_began(holder, version)
        try:
            pool = await self._pool()
            return await self._sample(pool, request, version)
        except RunPaused as problem:
            raise SamplerError(str(problem)) from problem
        finally:
            if not request.rollout_id:
                self._release(holder)

    async def sample_at_each(self, request: SampleRequest) -> dict[str, Sample]:
        """The newest version's sample of every server that is up, by its address: of one at least.

        Raises SamplerError, and RunPaused where none comes up.
        """
        self._check(request)
        pool = await self._pool()

        async def at(server: Server) -> Sample:
            name = self._versions.model_name(server, self.policy_version)
            return await pool.run(server, lambda client: client.sample(request, name))

        while True:
            await self._until_one_is_up(pool)
            try:
                if samples := await pool.at_each(at):
                    return samples
            except ServerRefused as refusal:
                raise SamplerError(str(refusal)) from refusal

    def rollout_began(self, rollout_id: str, version: int) -> None:
        """The version is kept for the rollout until it has ended. Raises SamplerError where it is gone."""
        if not self._versions.use.hold(rollout_id, version):
            raise SamplerError(f"policy version {version} is not served any more")

    def rollout_ended(self, rollout_id: str) -> None:
        """The rollout samples no more: its version may go once nobody needs it."""
        if self._servers is not None:
            self._servers.router.ended(rollout_id)
        self._release(rollout_id)

    async def publish(self, version: int, adapter_dir: Path) -> None:
        """New rollouts sample from this adapter; older versions stay for as long as a rollout needs them.

        All servers that are up know it then, or none does. Raises SamplerError, and RunPaused where the servers are
        at fault.
        """
        pool = await self._pool()
        if await self._versions.choose_again(version):
            return await self._versions.retire(pool)
        adapter = await self._versions.add(version, adapter_dir)
        is_published = False
        try:
            while not is_published:
                await self._until_one_is_up(pool)
                is_published = await self._versions.publish(pool, version, adapter)
        finally:
            if not is_published:
                await self._versions.drop(adapter)
        await self._versions.retire(pool)

    async def publish_base(self, version: int) -> None:
        """New samples come from the base model, which every server has."""
        if self._versions.is_known(version):
            raise SamplerError(f"policy version {version} was published already")
        self._versions.use.publish(version)
        await self._versions.retire(await self._pool())

    async def sleep(self) -> None:
        """Lend the servers' GPUs to an update. No sample may be in flight; none is answered before `wake_up`.

        Servers of our own that are being started come up first. Raises RunPaused where a server cannot sleep.
        """
        pool = await self._pool()
        try:
            await pool.sleep(self._options.start_patience_s)
        except ServerLost as lost:
            raise RunPaused("engine_unreachable", f"{lost}: it cannot sleep during updates") from lost
        except ServerRefused as refusal:
            raise RunPaused("engine_unfit", f"{refusal}: it cannot sleep during updates") from refusal

    async def wake_up(self) -> None:
        """Have them back. Raises SamplerError."""
        pool = await self._pool()
        try:
            await pool.wake_up()
        except ServerRefused as refusal:
            raise SamplerError(str(refusal)) from refusal

    async def close(self) -> None:
        """Give up what runs, let the servers forget the run's adapters, stop what was started for it; idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        for task in self._retiring:
            task.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        if self._starting is not None:
            if not self._starting.done():
                self._starting.cancel()
            started, *_ = await asyncio.gather(self._starting, return_exceptions=True)
            if isinstance(started, tuple):
                await self._shut(*started)
        await self._versions.clear()
        if self._on_close is not None:
            await self._on_close()

    async def _shut(self, http: HttpClient, pool: ServerPool) -> None:
        up = pool.up if self._on_close is None else []  # A server of our own forgets by being stopped.
        await pool.close()
        names = self._versions.adapter_names
        await asyncio.gather(*(server.client.unload(name) for server in up for name in names), return_exceptions=True)
        await http.aclose()

    def _check(self, request: SampleRequest) -> None:
        if self._is_closed:
            raise SamplerError("the engine is closed")
        if not request.prompt_ids or request.max_tokens < 1:
            raise SamplerError("a request needs a prompt and at least one token to sample")
        if len(request.prompt_ids) + request.max_tokens > self.max_context_tokens:
            raise SamplerError(f"prompt and completion exceed {self.max_context_tokens} tokens")

    async def _sample(self, pool: ServerPool, request: SampleRequest, version: int) -> Sample:
        """At one server after the other, until one does not die of it."""
        problem = ""
        for _ in range(2 * len(pool.servers) + 2):
            server = await self._route(pool, request)
            name = self._versions.model_name(server, version)
            try:
                return await pool.run(server, lambda client, name=name: client.sample(request, name), request.progress)
            except ServerLost as lost:
                problem = str(lost)
            except ServerRefused as refusal:
                if refusal.status != 404:
                    raise SamplerError(str(refusal)) from refusal
                problem = f"{refusal}; it was started again"
            if self._is_closed:
                raise SamplerError("the engine is closed")
            pool.lost(server, problem)
        raise SamplerError(problem)

    async def _until_one_is_up(self, pool: ServerPool) -> None:
        """Raises RunPaused where none is in time, SamplerError where the engine was closed meanwhile."""
        if not await pool.until(lambda pool: bool(pool.up) or pool.is_closed, self._options.patience_s):
            raise _unreachable(pool)
        if self._is_closed:
            raise SamplerError("the engine is closed")

    async def _route(self, pool: ServerPool, request: SampleRequest) -> Server:
        while True:
            router = pool.router
            rollout_id = request.rollout_id
            name = router.server_of(rollout_id, request.group_id) if rollout_id else router.any_server()
            if name is not None:
                return pool.servers[name]
            with request.progress.queued():
                has_one = await pool.until(lambda pool: bool(pool.up) or pool.is_closed, self._options.patience_s)
            if self._is_closed:
                raise SamplerError("the engine is closed")
            if not has_one:
                raise SamplerError(f"no vLLM server is up: {pool.problems}")

    async def _pool(self) -> ServerPool:
        """The servers, once one is up. Raises RunPaused."""
        if self._is_closed:
            raise SamplerError("the engine is closed")
        if self._starting is None or _has_failed(self._starting):
            self._starting = asyncio.create_task(self._start())
        _, pool = await asyncio.shield(self._starting)
        return pool

    async def _start(self) -> tuple[HttpClient, ServerPool]:
        options, http = self._options, open_http()
        await self._versions.clear()
        servers = [
            Server(
                ServerClient(address.url, http, api_key=options.api_key, sample_s=options.sample_s),
                asyncio.Semaphore(options.requests_at_once),
                address.ensure_running,
            )
            for address in self._addresses
        ]
        pool = ServerPool(servers, self._admit, poll_s=options.poll_s)
        pool.open()
        try:
            await pool.until(_is_settled, options.start_patience_s)
            unfit = [server.problem for server in servers if server.is_unfit]
            if unfit:
                raise RunPaused("engine_unfit", "; ".join(unfit))
            if not pool.up:
                raise _unreachable(pool)
        except BaseException:
            await pool.close()
            await http.aclose()
            raise
        self._servers = pool
        return http, pool

    async def _admit(self, server: Server) -> None:
        """Judge the server, and bring it to what all others know."""
        try:
            version, served = await server.client.version(), await server.client.models()
        except ServerRefused as refusal:
            raise ServerUnfit(str(refusal)) from refusal
        server.base = judge_served(
            server.name,
            version,
            served,
            base_model=self._options.base_model,
            max_context_tokens=self._options.max_context_tokens,
        )
        await self._versions.teach(server, served)

    def _release(self, holder: str) -> None:
        self._versions.use.release(holder)
        if self._versions.use.unused and self._servers is not None and not self._is_closed:
            task = asyncio.ensure_future(self._versions.retire(self._servers))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)


def _has_failed(task: asyncio.Task[tuple[HttpClient, ServerPool]]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _is_settled(pool: ServerPool) -> bool:
    """Whether the run can begin, or cannot: every server was asked, and one is up or is none for this run."""
    servers = pool.servers.values()
    return all(server.visits for server in servers) and (bool(pool.up) or any(server.is_unfit for server in servers))


def _unreachable(pool: ServerPool) -> RunPaused:
    who = "A vLLM server is not up" if pool.up else "No vLLM server is up"
    return RunPaused("engine_unreachable", f"{who}: {pool.problems}")
