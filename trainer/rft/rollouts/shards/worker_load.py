"""What one worker process runs, over all its runs: a rollout that may take the process with it takes nothing else."""

import asyncio
from dataclasses import dataclass, field


@dataclass(slots=True)
class WorkerLoad:
    """Shared by the sessions of a process. For one event loop."""

    held: dict[str, bool] = field(default_factory=dict[str, bool])
    """Whether it is to be alone, by shard."""
    taking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a shard is asked for: what comes back counts before anybody asks again."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs."""
        return not self.held

    @property
    def is_alone(self) -> bool:
        """Whether nothing may be taken beside what runs."""
        return any(self.held.values())

    def end(self, shard_id: str) -> None:
        """It does not run any more, if it ever did."""
        self.held.pop(shard_id, None)
