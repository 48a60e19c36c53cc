"""What one delivery of a worker carries, and what becomes of a rollout that none can carry. Pure."""

from collections.abc import Sequence
from itertools import takewhile

from rft.core.events import RolloutBegan
from rft.core.failure import Failure, FailureCode, Stage
from rft.core.messages import Message
from rft.core.rollout import Rollout
from rft.core.turns import Trace
from rft.rollouts.shards.inbox_wire import SettledRollout
from rft.rollouts.shards.wire import CALL_BYTES, Settled, json_bytes

LARGEST_ROLLOUT_BYTES = 32 << 20
"""Half of what the platform takes in with one call."""
_FRAME_BYTES = 64
"""What a delivery adds to a rollout's ids and body at most."""


def wire_bytes(one: SettledRollout) -> int:
    """What it adds to a delivery."""
    return json_bytes(one.body) + len(one.shard_id) + len(one.trace_id) + _FRAME_BYTES


def first_delivery(outbox: Sequence[SettledRollout]) -> int:
    """How many rollouts of a filled outbox go with the next delivery: at least one."""
    total_bytes = 0
    for count, one in enumerate(outbox):
        total_bytes += wire_bytes(one)
        if count and total_bytes > CALL_BYTES:
            return count
    return len(outbox)


def settled_rollout(shard_id: str, trace_id: str, settled: Settled) -> SettledRollout:
    """As it is handed over; one that is too large for any delivery is the platform's failure."""
    one = SettledRollout(shard_id=shard_id, trace_id=trace_id, body=settled.model_dump_json())
    size = wire_bytes(one)
    if size <= LARGEST_ROLLOUT_BYTES:
        return one
    return undeliverable(one, f"it has {size:,} bytes, more than {LARGEST_ROLLOUT_BYTES:,}")


def undeliverable(one: SettledRollout, problem: str) -> SettledRollout:
    """The platform's failure in place of a rollout that cannot be handed over, with its calls where they fit."""
    settled = Settled.model_validate_json(one.body)
    began, messages = _beginning(settled)
    failure = platform_failure(f"The rollout ended, but its worker could not hand it over: {problem}.")
    failed = Settled(rollout=failed_rollout(began, messages, failure), attempts=settled.attempts)
    short = one.model_copy(update={"body": failed.model_dump_json()})
    if wire_bytes(short) <= CALL_BYTES:
        return short
    shortest = Settled(rollout=failed_rollout(began, (), failure))
    return one.model_copy(update={"body": shortest.model_dump_json()})


def platform_failure(message: str) -> Failure:
    """Ours, and no endpoint's."""
    return Failure(stage=Stage.PLATFORM, code=FailureCode.INTERNAL_ERROR, message=message)


def failed_rollout(began: RolloutBegan, messages: tuple[Message, ...], failure: Failure) -> Rollout:
    """A rollout of which nothing but its failure is known."""
    return Rollout(
        key=began.key,
        trace_id=began.trace_id,
        policy_version=began.policy_version,
        trace=Trace(prompt_ids=()),
        stop_reason=None,
        outcome=failure,
        messages=messages,
        duration_s=0.0,
        sampling_s=0.0,
        tools_s=0.0,
        grading_s=0.0,
    )


def _beginning(settled: Settled) -> tuple[RolloutBegan, tuple[Message, ...]]:
    """Whose it is, and the conversation up to the policy's first turn."""
    if settled.rollout is not None:
        rollout = settled.rollout
        began, messages = RolloutBegan(rollout.key, rollout.trace_id, rollout.policy_version), rollout.messages
    else:
        assert settled.ungraded is not None, "exactly one of both is there"
        began, messages = settled.ungraded.began, settled.ungraded.messages
    return began, tuple(takewhile(lambda message: message.role != "assistant", messages))
