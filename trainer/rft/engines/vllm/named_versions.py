"""Policy versions that a trainer elsewhere publishes: here they are only named, sampled from and forgotten."""

from collections.abc import Sequence
from pathlib import Path

from rft.engines.vllm.adapters import AdapterFolder
from rft.engines.vllm.client import ServerLost
from rft.engines.vllm.pool import Server, ServerPool
from rft.engines.vllm.served_versions import ServedVersions
from rft.engines.vllm.wire import ServedModel


class NamedVersions(ServedVersions):
    """Loads and unloads nothing: the servers are the trainer's to tell."""

    def __init__(self) -> None:
        super().__init__(AdapterFolder(Path(), run="", launch=""))
        self._names: dict[int, str | None] = {}

    @property
    def adapter_names(self) -> tuple[str, ...]:
        """None of them is ours to unload."""
        return ()

    def name(self, version: int, adapter: str | None) -> None:
        """What the servers call this version; None: it is the base model."""
        self._names[version] = adapter
        if version > self.use.newest:
            self.use.publish(version)
        else:
            self.use.serve_too(version)

    def is_known(self, version: int) -> bool:
        """Whether it was named and is not forgotten."""
        return version in self._names

    def adapter_name(self, version: int) -> str | None:
        """As it was named."""
        return self._names.get(version)

    async def clear(self) -> None:
        """There are no directories."""

    async def teach(self, server: Server, served: Sequence[ServedModel]) -> None:
        """A server that came back takes requests once the trainer has taught it what is sampled here.

        Raises ServerLost before that. Of versions that nobody here samples from, the trainer may have none any more.
        """
        known = {model.id for model in served}
        missing = [name for version in self.use.held if (name := self._names.get(version)) and name not in known]
        if missing:
            raise ServerLost(f"vLLM server {server.name} does not know {missing[0]} yet")

    async def retire(self, pool: ServerPool) -> None:
        """Forget the names of versions that nothing here samples from any more."""
        del pool
        for version in self.use.unused:
            self.use.forget(version)
            self._names.pop(version, None)
