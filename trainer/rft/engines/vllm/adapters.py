"""The directories that servers read adapters from: immutable, one per policy version and launch, ours alone.

A checkpoint may be deleted while a server still knows its adapter, and vLLM dies of that. So what servers are shown
is a folder of links, which is removed after the adapter was unloaded. vLLM gives each of its modules the matrices of
the same name, and says nothing of those that no module has: where it calls layers otherwise, it is shown a copy.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from rft.core.errors import SamplerError
from rft.scratch.disk import is_disk_full

_CONFIG, _WEIGHTS = ("adapter_config.json", "adapter_model.safetensors")
_TRAINED_AT = "base_model.model.model."
"""What the names of all matrices of a trained language model begin with."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """One policy version, as servers know it."""

    name: str
    directory: Path


class AdapterFolder:
    """Where a launch of a run keeps the adapters that servers may know."""

    def __init__(self, folder: Path, *, run: str, launch: str, text_at: str | None = None) -> None:
        """`run` begins every name of the run, `launch` tells its launches apart.

        `text_at`: where the trained language model lies in what is served, as `architecture.text_at` says.
        """
        self.prefix, self._text_at = f"{run}.", text_at
        self._folder, self._launch = folder, launch

    def clear(self) -> None:
        """Remove what earlier launches left."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, version: int, adapter_dir: Path) -> Adapter:
        """The version's adapter under a name that was never used before. Raises SamplerError; OSError: a full disk."""
        name = f"{self.prefix}{self._launch}.v{version}"
        directory = self._folder / name
        try:
            directory.mkdir(parents=True)
            _link(adapter_dir / _CONFIG, directory / _CONFIG)
            if self._text_at is None:
                _link(adapter_dir / _WEIGHTS, directory / _WEIGHTS)
            else:
                _rename(adapter_dir / _WEIGHTS, directory / _WEIGHTS, f"base_model.model.{self._text_at}")
        except (OSError, ValueError) as error:
            shutil.rmtree(directory, ignore_errors=True)
            if is_disk_full(error):
                raise
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


def _rename(source: Path, target: Path, prefix: str) -> None:
    """A copy with the same matrices: a safetensors file is the length of its header, the header, and all numbers.

    Raises OSError, ValueError.
    """
    with source.open("rb") as old, target.open("xb") as new:
        length = int.from_bytes(old.read(8), "little")
        if length > source.stat().st_size:
            raise ValueError("it is no safetensors file")
        header = json.loads(old.read(length))
        if not isinstance(header, dict):
            raise ValueError("it is no safetensors file")
        tensors = cast(dict[str, object], header)
        renamed = {
            prefix + name.removeprefix(_TRAINED_AT) if name.startswith(_TRAINED_AT) else name: where
            for name, where in tensors.items()
        }
        text = json.dumps(renamed, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)  # The numbers begin where eight divides.
        new.write(len(text).to_bytes(8, "little") + text)
        shutil.copyfileobj(old, new)
