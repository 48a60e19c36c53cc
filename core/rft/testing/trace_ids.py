"""Public ids that a test can foretell; real ones are drawn by chance."""

from collections.abc import Callable
from itertools import count
from uuid import UUID

from rft.core.ids import digest, trace_id
from rft.core.rollout import RolloutKey


def trace_ids(name: str = "") -> Callable[[], str]:
    """Draws the same ids in the same order each time, other ones for each `name`."""
    numbers = count()
    return lambda: _from(name, next(numbers))


def trace_id_at(key: RolloutKey, *, conversation: int = 0) -> str:
    """The id of the `conversation`th conversation at one place of a run."""
    return _from(key.model_dump_json(), conversation)


def _from(name: str, number: int) -> str:
    return trace_id(UUID(bytes=digest(name, number)[:16], version=4))
