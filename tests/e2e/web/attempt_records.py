"""The failure ledger of the made-up run: what its calls to the customer's endpoints took."""

import random
from collections.abc import Iterator, Sequence

from rft.core.attempt import Attempt
from rft.core.events import AttemptsMade, RolloutDone
from rft.core.failure import Failure, FailureCode, Stage

GRADER = "answer_credit"
_STATUS = {None: 200, FailureCode.SERVER_ERROR: 503, FailureCode.RATE_LIMITED: 429}


def attempts_made(step: int, rollouts: Sequence[RolloutDone]) -> AttemptsMade:
    """Every attempt of every call of these rollouts."""
    return AttemptsMade(step=step, attempts=tuple(a for done in rollouts for a in _of_rollout(done)))


def _of_rollout(done: RolloutDone) -> Iterator[Attempt]:
    rng = random.Random(f"{done.key.job_seed}/{done.key.split}/{done.key.row_index}/{done.key.index}")
    answered = {message.tool_call_id for message in done.messages}
    calls_by_turn = [message.tool_calls for message in done.messages if message.tool_calls]
    ends = [turn.began_at + turn.sampling_s + turn.tools_s for turn in done.turn_times]
    timed = ((call, end) for calls, end in zip(calls_by_turn, ends, strict=False) for call in calls)
    for call, called_at in timed:
        if call.call_id in answered:
            codes = [FailureCode.RATE_LIMITED, None] if rng.random() < 0.06 else [None]
        else:
            assert isinstance(done.outcome, Failure)
            codes = [done.outcome.code] * done.outcome.attempts
        for number, code in enumerate(codes, 1):
            yield _attempt(rng, done.trace_id, Stage.TOOL, call.name, call.call_id, number, code, called_at)
    if not isinstance(done.outcome, Failure):
        yield _attempt(rng, done.trace_id, Stage.GRADER, GRADER, "grade", 1, None, ends[-1] + done.grading_s)


def _attempt(
    rng: random.Random,
    trace_id: str,
    stage: Stage,
    endpoint: str,
    call_id: str,
    number: int,
    code: FailureCode | None,
    at: float,
) -> Attempt:
    return Attempt(
        at=at,
        trace_id=trace_id,
        stage=stage,
        endpoint=endpoint,
        call_id=call_id,
        attempt=number,
        code=code,
        status=_STATUS.get(code),
        latency_s=10.0 if code is FailureCode.TIMEOUT else rng.uniform(0.02, 0.14),
        queued_s=rng.choice((0.0, 0.0, 0.0004, 0.012)),
        sent_bytes=rng.randint(280, 420),
        received_bytes=0 if code is FailureCode.TIMEOUT else rng.randint(60, 3200),
    )
