"""What every engine is beyond a `Sampler`: it can be given new weights, and it can be stopped."""

from pathlib import Path
from typing import Protocol, runtime_checkable

from rft.rollouts.sampler import Sampler


class Engine(Sampler, Protocol):
    """Samples from the policy of one run."""

    async def publish(self, version: int, adapter_dir: Path) -> None:
        """New rollouts sample from this adapter from now on. The directory is immutable and new for each version.

        Called with no sample in flight, but for engines that are a `RolloutHolder`: those go on with the versions that
        rollouts began with. Raises SamplerError.
        """
        ...

    async def close(self) -> None:
        """Free threads and memory; idempotent."""
        ...


@runtime_checkable
class BaseModelEngine(Protocol):
    """An engine that can go back from an adapter to the base model."""

    async def publish_base(self, version: int) -> None:
        """Sample from the base model from now on, under the same rules as `publish`. Raises SamplerError."""
        ...


@runtime_checkable
class StartingEngine(Protocol):
    """An engine over servers of the run's own, which take long to start."""

    async def open_all(self) -> None:
        """Wait until all of them are up. Raises RunPaused, SamplerError."""
        ...


@runtime_checkable
class SleepingEngine(Protocol):
    """An engine that can lend its devices' memory to an update."""

    async def sleep(self) -> None:
        """Called with no sample in flight; nothing is sampled or published before `wake_up`. Raises RunPaused."""
        ...

    async def wake_up(self) -> None:
        """Sample again, from the same versions. Raises SamplerError."""
        ...
