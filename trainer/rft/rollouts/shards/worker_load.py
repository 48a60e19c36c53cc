"""What one worker process runs, over all its runs: a rollout that may take the process with it runs beside nothing."""

import asyncio
from dataclasses import dataclass, field

_USE_WITHIN_S = 60.0


@dataclass(slots=True)
class WorkerLoad:
    """Shared by the sessions of a process. For one event loop."""

    held: dict[str, bool] = field(default_factory=dict[str, bool])
    """Whether it is to be alone, by shard."""
    taking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a shard is asked for: what comes back counts before anybody asks again."""
    _reserved_for: object | None = None
    """Whose shard waits until nothing runs here: others' would keep the process busy for ever."""
    _idle_since_s: float = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs."""
        return not self.held

    @property
    def is_alone(self) -> bool:
        """Whether nothing may be taken beside what runs."""
        return any(self.held.values())

    def is_closed_to(self, session: object) -> bool:
        """Whether the session may take nothing now."""
        if self._reserved_for is not None and self.is_idle and _now_s() > self._idle_since_s + _USE_WITHIN_S:
            self._reserved_for = None  # It is not asked for any more.
        return self.is_alone or (
            self._reserved_for is not None and not (self.is_idle and self._reserved_for is session)
        )

    def reserve(self, session: object, *, is_one_waiting: bool) -> None:
        """After the session has asked: nothing is taken until it may have what waits for an idle process."""
        if is_one_waiting:
            self._reserved_for = session
        else:
            self.release(session)

    def release(self, session: object) -> None:
        """The session needs no idle process."""
        if self._reserved_for is session:
            self._reserved_for = None

    def end(self, shard_id: str) -> None:
        """It does not run any more, if it ever did."""
        if self.held.pop(shard_id, None) is not None and not self.held:
            self._idle_since_s = _now_s()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
