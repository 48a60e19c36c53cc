"""The directories that servers read adapters from: immutable, one per policy version and launch, ours alone.

A checkpoint may be deleted while a server still knows its adapter, and vLLM dies of that. So what servers are shown
is a folder of links, which is removed after the adapter was unloaded.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from rft.core.errors import SamplerError

FILES = ("adapter_config.json", "adapter_model.safetensors")


@dataclass(frozen=True, slots=True)
class Adapter:
    """One policy version, as servers know it."""

    name: str
    directory: Path


class AdapterFolder:
    """Where a launch of a run keeps the adapters that servers may know."""

    def __init__(self, folder: Path, *, run: str, launch: str) -> None:
        """`run` begins every name of the run, `launch` tells its launches apart."""
        self.prefix = f"{run}."
        self._folder, self._launch = folder, launch

    def clear(self) -> None:
        """Remove what earlier launches left."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, version: int, adapter_dir: Path) -> Adapter:
        """The version's adapter under a name that was never used before. Raises SamplerError."""
        name = f"{self.prefix}{self._launch}.v{version}"
        directory = self._folder / name
        try:
            directory.mkdir(parents=True)
            for file in FILES:
                _link(adapter_dir / file, directory / file)
        except OSError as error:
            shutil.rmtree(directory, ignore_errors=True)
            raise SamplerError(f"the adapter in {adapter_dir.name} cannot be read: {error}") from error
        return Adapter(name, directory.resolve())

    @staticmethod
    def remove(adapter: Adapter) -> None:
        """No server knows it any more."""
        shutil.rmtree(adapter.directory, ignore_errors=True)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # Another file system, or one without links.
        shutil.copyfile(source, target)
