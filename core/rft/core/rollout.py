"""Rollout: one conversation about one row with one policy version, and its outcome."""

from dataclasses import dataclass
from enum import StrEnum

from rft.core.base import Record
from rft.core.failure import Failure
from rft.core.grade import Grade
from rft.core.ids import seed_63
from rft.core.messages import Message
from rft.core.turns import Trace, Turn


class Split(StrEnum):
    """What the rollout is for."""

    TRAIN = "train"
    VALID = "valid"
    """Evaluations that choose the checkpoint."""
    TEST = "test"
    """Measurements that choose nothing: of the test file's rows or, without one, of the validation rows."""


class StopReason(StrEnum):
    """Why a rollout ended normally; all of them are graded."""

    COMPLETED = "completed"
    """The model answered without a tool call."""
    TOOL_CALLS = "tool_calls"
    """It called functions that its row describes and nobody answers: what it called is what is graded."""
    MAX_TURNS = "max_turns"
    """Too many turns; guards against turns without progress."""
    MAX_TOOL_CALLS = "max_tool_calls"
    """Called a tool again on the last turn it was given after its budget was used up."""
    MAX_TOKENS = "max_tokens"
    """Its completion token budget ran out, in the middle of a turn or between two."""
    CONTEXT_FULL = "context_full"
    """The next turn would not fit into the model's context."""


class RolloutKey(Record):
    """A rollout's place in its run. The seed follows from it, so that a rollout done again samples the same.

    Its public id does not: a conversation that begins anew gets a new one.
    """

    job_id: str
    job_seed: int
    split: Split
    step: int
    """The step whose batch (or evaluation) it belongs to."""
    epoch: int
    """Pass over the training file, from 0; for validation the step of the evaluation."""
    row_index: int
    index: int
    """Position in the group, from 0."""
    attempt: int = 0
    """Counts replacements after a failure."""
    seed_attempt: int | None = None
    """The attempt whose seed it has, where the same conversation is begun anew; None: its own."""

    @property
    def seed(self) -> int:
        """Sampling seed in [0, 2**63)."""
        attempt = self.attempt if self.seed_attempt is None else self.seed_attempt
        return seed_63(self.job_seed, self.split, self.row_index, self.epoch, self.index, attempt)


@dataclass(frozen=True, slots=True)
class Rollout:
    """The finished rollout. `outcome` is a grade, or the failure that kept it from being graded."""

    key: RolloutKey
    trace_id: str
    """The public id, the same on every tool call and the grade."""
    policy_version: int
    """The one that it began with."""
    trace: Trace
    stop_reason: StopReason | None
    """None exactly when the outcome is a failure that broke the conversation off."""
    outcome: Grade | Failure
    messages: tuple[Message, ...]
    """The whole conversation, for reading: prompt, turns, tool outputs."""
    duration_s: float
    sampling_s: float
    tools_s: float
    grading_s: float
    cut_tokens: int = 0
    """Tokens of a sample that was broken off: the policy sampled them, but they are in no trace."""

    @property
    def turns(self) -> list[Turn]:
        """What the policy said, with the results of its calls."""
        return self.trace.turns

    @property
    def turn_versions(self) -> tuple[int, ...]:
        """Which policy version sampled each turn."""
        own = self.policy_version
        return tuple(own if turn.policy_version is None else turn.policy_version for turn in self.turns)

    @property
    def sampled_tokens(self) -> int:
        """How many tokens the policy produced, up to the cut."""
        return self.trace.sampled_tokens + self.cut_tokens

    @property
    def reward(self) -> float | None:
        """The training reward; None means unscorable, never zero."""
        return self.outcome.reward if isinstance(self.outcome, Grade) else None
