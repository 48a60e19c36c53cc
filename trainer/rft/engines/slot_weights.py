"""Which weights the slot engine samples from: one policy version merged, or several side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from torch import nn

from rft.core.errors import SamplerError
from rft.engines.adapter_stack import AdapterStack
from rft.engines.adapter_weights import MergedAdapter


class SlotWeights(Protocol):
    """Used in the engine's thread alone."""

    @property
    def are_several(self) -> bool:
        """Whether older versions stay until they are dropped."""
        ...

    def publish(self, version: int, adapter_dir: Path | None, *, is_idle: bool) -> None:
        """One more version; None: the base model's own weights. Raises SamplerError."""
        ...

    def drop(self, version: int) -> None:
        """Nothing samples from this version any more."""
        ...

    def choose(self, versions: Sequence[tuple[int, int]]) -> None:
        """Of the next pass: version and number of tokens, in the order in which they are packed."""
        ...


class OneVersion:
    """As fast as the base model: the newest version is merged, and there is no other."""

    are_several = False

    def __init__(self, model: nn.Module) -> None:
        self._merged = MergedAdapter(model)

    def publish(self, version: int, adapter_dir: Path | None, *, is_idle: bool) -> None:
        """In place of the last one. Raises SamplerError, also while something is sampled from that."""
        del version
        if not is_idle:
            raise SamplerError("new weights while samples are in flight")
        if adapter_dir is None:
            self._merged.restore()
        else:
            self._merged.merge(adapter_dir)

    def drop(self, version: int) -> None:
        """It went with the one that came after it."""

    def choose(self, versions: Sequence[tuple[int, int]]) -> None:
        """There is only one."""


class SeveralVersions:
    """Conversations go on under the version they began with."""

    are_several = True

    def __init__(self, model: nn.Module) -> None:
        self._stack = AdapterStack(model)

    def publish(self, version: int, adapter_dir: Path | None, *, is_idle: bool) -> None:
        """Beside the others. Raises SamplerError."""
        del is_idle
        self._stack.add(version, adapter_dir)

    def drop(self, version: int) -> None:
        """Nothing samples from this version any more."""
        self._stack.remove(version)

    def choose(self, versions: Sequence[tuple[int, int]]) -> None:
        """Of the next pass: version and number of tokens, in the order in which they are packed."""
        self._stack.choose(versions)
