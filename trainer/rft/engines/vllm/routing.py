"""Which server samples for a rollout. Pure: nothing here waits or calls.

A rollout stays on its server, where its conversation is cached. A new one goes to the server with the fewest active
rollouts, unless its group, whose prompt is cached already, is on a server that is not much busier.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

MOST_AHEAD = 8
"""A rollout follows its group to a server that has so many active rollouts more than the least busy one, not beyond."""


@dataclass(slots=True)
class _Group:
    """Where a group's first rollout went, and which of its rollouts are active."""

    server: str
    rollouts: set[str] = field(default_factory=set[str])


class Router:
    """Active rollouts and the servers that they are on."""

    def __init__(self, servers: Sequence[str]) -> None:
        self._active: dict[str, set[str]] = {server: set() for server in servers}
        """By server, the least recently chosen first."""
        self._up: set[str] = set()
        self._servers: dict[str, str] = {}
        """By active rollout."""
        self._group_of: dict[str, str] = {}
        self._groups: dict[str, _Group] = {}

    @property
    def up(self) -> tuple[str, ...]:
        """The servers that take requests."""
        return tuple(server for server in self._active if server in self._up)

    def active(self, server: str) -> int:
        """How many rollouts are on it."""
        return len(self._active[server])

    def server_of(self, rollout_id: str, group_id: str) -> str | None:
        """Where this rollout samples its next turn; None while no server is up."""
        known = self._servers.get(rollout_id)
        if known is not None:
            return known
        server = self._choose(group_id)
        if server is not None:
            self._assign(rollout_id, group_id, server)
        return server

    def any_server(self) -> str | None:
        """Where something that belongs to no rollout is sampled; None while no server is up."""
        server = self._least_busy()
        if server is not None:
            self._mark_chosen(server)
        return server

    def ended(self, rollout_id: str) -> None:
        """The rollout samples no more; unknown ones are none of ours."""
        server = self._servers.pop(rollout_id, None)
        if server is not None:
            self._active[server].discard(rollout_id)
        group_id = self._group_of.pop(rollout_id, None)
        group = None if group_id is None else self._groups.get(group_id)
        if group is not None and group_id is not None:
            group.rollouts.discard(rollout_id)
            if not group.rollouts:
                del self._groups[group_id]

    def lost(self, server: str) -> None:
        """The server takes no more requests; its rollouts go on elsewhere with their next turn."""
        self._up.discard(server)
        for rollout_id in self._active[server]:
            del self._servers[rollout_id]
        self._active[server] = set()

    def restored(self, server: str) -> None:
        """The server takes requests."""
        self._up.add(server)

    def _choose(self, group_id: str) -> str | None:
        least = self._least_busy()
        group = self._groups.get(group_id)
        if least is None or group is None or group.server not in self._up:
            return least
        return group.server if self.active(group.server) - self.active(least) <= MOST_AHEAD else least

    def _least_busy(self) -> str | None:
        return min(self.up, key=self.active, default=None)

    def _mark_chosen(self, server: str) -> None:
        self._active[server] = self._active.pop(server)

    def _assign(self, rollout_id: str, group_id: str, server: str) -> None:
        self._mark_chosen(server)
        self._servers[rollout_id] = server
        self._active[server].add(rollout_id)
        if not group_id:
            return
        self._group_of[rollout_id] = group_id
        group = self._groups.setdefault(group_id, _Group(server))
        if group.server not in self._up:
            group.server = server
        group.rollouts.add(rollout_id)
