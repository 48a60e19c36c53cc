"""What the servers know of a run's adapters: a policy version is an adapter that all of them know."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from rft.core.errors import RunPaused
from rft.engines.version_use import VersionUse
from rft.engines.vllm.adapters import Adapter, AdapterFolder
from rft.engines.vllm.client import ServerLost, ServerRefused
from rft.engines.vllm.pool import Server, ServerPool
from rft.engines.vllm.wire import ServedModel

_NOT_THERE_YET = "No adapter found"
"""What a server says of a directory that its file system does not show yet."""
_LOOK_AGAIN_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class ServedVersions:
    """Loads, keeps and unloads adapters; an adapter's directory outlives its last use by any server."""

    def __init__(self, folder: AdapterFolder) -> None:
        self.use = VersionUse()
        self._folder = folder
        self._adapters: dict[int, Adapter] = {}
        self._changing = asyncio.Lock()
        """Held while what servers have to know changes, or one of them is told."""

    @property
    def adapter_names(self) -> tuple[str, ...]:
        """Of all versions that are served."""
        return tuple(adapter.name for adapter in self._adapters.values())

    def is_known(self, version: int) -> bool:
        """Whether it was published and is not forgotten."""
        return version in self._adapters

    def adapter_name(self, version: int) -> str | None:
        """What servers call the version; None for the base model."""
        adapter = self._adapters.get(version)
        return None if adapter is None else adapter.name

    def model_name(self, server: Server, version: int) -> str:
        """What this server calls the version."""
        return self.adapter_name(version) or server.base

    async def choose_again(self, version: int) -> bool:
        """Whether it is served still, by an adapter: then new rollouts sample from it, as before newer ones came."""
        async with self._changing:
            if version not in self._adapters:
                return False
            self.use.publish(version)
            return True

    async def add(self, version: int, adapter_dir: Path) -> Adapter:
        """The adapter in an immutable directory of its own, which no server knows yet."""
        return await asyncio.to_thread(self._folder.add, version, adapter_dir)

    async def drop(self, adapter: Adapter) -> None:
        """Remove the directory of an adapter that no server knows."""
        await asyncio.to_thread(self._folder.remove, adapter)

    async def clear(self) -> None:
        """Remove all directories, an earlier launch's too."""
        await asyncio.to_thread(self._folder.clear)

    async def publish(self, pool: ServerPool, version: int, adapter: Adapter) -> bool:
        """Whether the servers that are up know it now; False where all are gone. Raises RunPaused; then none does."""
        async with self._changing:
            is_published = await self._load_everywhere(pool, adapter)
            if is_published:
                self._adapters[version] = adapter
                self.use.publish(version)
            return is_published

    async def teach(self, server: Server, served: Sequence[ServedModel]) -> None:
        """Bring a server that was not there to what all others know. Raises ServerLost, ServerRefused."""
        async with self._changing:
            known = {model.id for model in served if model.parent is not None}
            for name in known - set(self.adapter_names):
                if name.startswith(self._folder.prefix):
                    await server.client.unload(name)
            for adapter in self._adapters.values():
                if adapter.name not in known:
                    await _load(server, adapter)

    async def retire(self, pool: ServerPool) -> None:
        """Versions that nobody needs are unloaded everywhere; only then do their directories go."""
        async with self._changing:
            for version in self.use.unused:
                self.use.forget(version)
                adapter = self._adapters.pop(version, None)
                if adapter is None:
                    continue
                for server in pool.up:
                    await _forget(pool, server, adapter)
                await self.drop(adapter)

    async def _load_everywhere(self, pool: ServerPool, adapter: Adapter) -> bool:
        servers = pool.up
        try:
            return bool(await pool.at_each(lambda server: _load(server, adapter)))
        except Exception as problem:
            for server in servers:
                await _forget(pool, server, adapter)
            if isinstance(problem, ServerRefused):
                message = f"The adapter of this run does not fit the server. {problem}"
                raise RunPaused("adapter_refused", message) from problem
            raise


async def _load(server: Server, adapter: Adapter) -> None:
    """Raises ServerLost, ServerRefused."""
    for wait_s in (*_LOOK_AGAIN_S, None):
        try:
            await server.client.load(adapter.name, str(adapter.directory))
        except ServerRefused as refusal:
            if wait_s is None or _NOT_THERE_YET not in str(refusal):
                raise
            await asyncio.sleep(wait_s)
        else:
            return


async def _forget(pool: ServerPool, server: Server, adapter: Adapter) -> None:
    """A server that cannot be told is lost: it is told when it comes back."""
    try:
        await server.client.unload(adapter.name)
    except (ServerLost, ServerRefused) as problem:
        pool.lost(server, str(problem))
