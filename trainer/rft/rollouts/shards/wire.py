"""A shard and what comes back of it: exact, so that a rollout trains the same wherever it ran."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import model_validator

from rft.chat.saved_chat import ChatRecord
from rft.core.attempt import Attempt
from rft.core.base import Record
from rft.core.dataset import DatasetRow
from rft.core.events import RolloutBegan
from rft.core.rollout import Rollout
from rft.core.spec import RunSpec
from rft.rollouts.ended_conversation import EndedConversation

SMALLEST, LARGEST = 16, 64
CALL_BYTES = 8 << 20
"""A shard of more than one row and a delivery of more than one rollout have no more (`json_bytes`): a slow line carries
it in time, and the platform takes it in."""
_SHARDS_OF_A_BURST = 8
"""A burst is cut into about so many, so that several workers have something of it."""


class RunForWorkers(Record):
    """What a worker needs to know of a run; no secrets: the gateway services have those."""

    spec: RunSpec
    """With URLs as they may be shown; a worker calls none of them itself."""
    max_context_tokens: int
    """Prompt plus completion at most."""
    chat: ChatRecord
    """The chat as the trainer reads it: a worker that reads another one must not sample."""
    chat_template: str


@dataclass(frozen=True, slots=True)
class ShardRollout:
    """One rollout of a shard, told of and held against its policy version by the trainer."""

    row: int
    """Which of the shard's rows."""
    began: RolloutBegan


class Shard(Record):
    """Rollouts that one worker runs together."""

    rows: tuple[DatasetRow, ...]
    rollouts: tuple[ShardRollout, ...]
    is_grading: bool
    """Whether each is graded where it runs; not so for graders of whole groups."""
    adapter: str | None
    """What the vLLM servers call the policy version; None for the base model."""


class Settled(Record):
    """How a rollout ended: exactly one of `rollout` and `ungraded` is there."""

    rollout: Rollout | None = None
    ungraded: EndedConversation | None = None
    """The conversation ended, and its grade is still missing."""
    attempts: tuple[Attempt, ...] = ()
    """Calls that were tried for it."""

    @model_validator(mode="after")
    def _is_one_of_both(self) -> "Settled":
        if (self.rollout is None) is (self.ungraded is None):
            raise ValueError("a rollout ends either graded, failed, or without its grade")
        return self


def json_bytes(body: str) -> int:
    """What a text of JSON adds to a call, whose JSON it is put into: it has no characters to escape but these two."""
    return len(body.encode()) + body.count('"') + body.count("\\")


def shard_sizes(rollouts: int) -> Sequence[int]:
    """How a burst is cut: shards of nearly equal size, 16 to 64 rollouts each where there are so many."""
    shards = min(max(1, rollouts // SMALLEST), max(_SHARDS_OF_A_BURST, -(-rollouts // LARGEST))) if rollouts else 0
    return [rollouts // shards + (number < rollouts % shards) for number in range(shards)]
