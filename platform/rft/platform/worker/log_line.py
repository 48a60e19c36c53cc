"""One line of the event log as ingest takes it."""

import re
from dataclasses import dataclass
from math import isfinite
from typing import Self

from pydantic import ValidationError

from rft.core.events import (
    AttemptsMade,
    CallsFailed,
    EventLine,
    HoldBegan,
    HoldEnded,
    Notice,
    PolicyMeasured,
    RatiosMeasured,
    RolloutDone,
    RolloutsBegan,
    RolloutsVoided,
    RoundRedone,
    RunEnded,
    RunStarted,
    StepDone,
    StillWaiting,
    TokensSampled,
)
from rft.core.failure import Failure
from rft.platform.store.said import answer_of, prompt_of
from rft.run_directory.event_log import CorruptLog

_ROLLOUT = re.compile(rb'\{"seq":([1-9]\d*),"at":([1-9]\d*(?:\.\d+)?),"event":(?=\{"type":"rollout_done",)')
"""How a trainer's line begins that tells of a rollout: what follows is the event and a brace."""
_LINE_END = b"}\n"


@dataclass(slots=True)
class LoggedRollout:
    """A `RolloutDone` whose text is stored as the trainer wrote it; beside it what the row's other columns need."""

    trace_id: str
    split: str
    step: int
    epoch: int
    row_index: int
    group_index: int
    attempt: int
    policy_version: int
    reward: float | None
    failure_code: str | None
    failure_stage: str | None
    stop_reason: str | None
    tool_calls: int
    completion_tokens: int
    duration_s: float
    called: tuple[str, ...]
    """Names of the tools it called."""
    prompt: str | None
    answer: str | None
    record: bytes
    """The event's JSON."""

    @classmethod
    def of(cls, done: RolloutDone, record: bytes) -> Self:
        """What is stored of the event that `record` was read as."""
        key, outcome = done.key, done.outcome
        failure = outcome if isinstance(outcome, Failure) else None
        return cls(
            trace_id=done.trace_id,
            split=key.split,
            step=key.step,
            epoch=key.epoch,
            row_index=key.row_index,
            group_index=key.index,
            attempt=key.attempt,
            policy_version=done.policy_version,
            reward=None if isinstance(outcome, Failure) else outcome.reward,
            failure_code=failure and failure.code,
            failure_stage=failure and failure.stage,
            stop_reason=done.stop_reason,
            tool_calls=sum(done.tool_calls.values()),
            completion_tokens=done.completion_tokens,
            duration_s=done.duration_s,
            called=tuple(done.tool_calls),
            prompt=prompt_of(done.messages),
            answer=answer_of(done.messages),
            record=record,
        )


@dataclass(slots=True)
class UnreadRollout:
    """A rollout's line as the trainer wrote it.

    Thousands come at once, so each is read when it is stored: Postgres works on one while the next is read, and no more
    than one conversation is there as objects, which would cost the garbage collector more than the reading does.
    """

    line: bytes

    def read(self) -> LoggedRollout:
        """What is stored of it. Raises CorruptLog."""
        rollout = _as_it_came(self.line)
        if rollout is not None:
            return rollout
        event = _whole(self.line).event
        if not isinstance(event, RolloutDone):
            raise CorruptLog(f"a line of the event log is no {RolloutDone.__name__}: {event.type}")
        return LoggedRollout.of(event, event.model_dump_json().encode())


LoggedEvent = (
    UnreadRollout
    | RolloutsBegan
    | RolloutsVoided
    | AttemptsMade
    | CallsFailed
    | TokensSampled
    | RatiosMeasured
    | RunStarted
    | StepDone
    | PolicyMeasured
    | RoundRedone
    | HoldBegan
    | HoldEnded
    | Notice
    | StillWaiting
    | RunEnded
)


@dataclass(slots=True)
class LogLine:
    """An `EventLine` of which only a rollout is not read yet."""

    seq: int
    at: float
    """Unix time in seconds."""
    event: LoggedEvent


def read_line(line: bytes) -> LogLine:
    """A complete line, newline included. Raises CorruptLog; of a rollout, only `UnreadRollout.read` finds out."""
    begin = _ROLLOUT.match(line)
    if begin is not None:
        return LogLine(int(begin[1]), float(begin[2]), UnreadRollout(line))
    read = _whole(line)
    return LogLine(read.seq, read.at, UnreadRollout(line) if isinstance(read.event, RolloutDone) else read.event)


def _whole(line: bytes) -> EventLine:
    try:
        return EventLine.model_validate_json(line)
    except ValidationError as error:
        raise CorruptLog(f"a line of the event log cannot be read: {error.errors()[0]['msg']}") from error


def _as_it_came(line: bytes) -> LoggedRollout | None:
    """A rollout with the very text that the line has; None for a line that is written in an unusual way, or wrong."""
    begin = _ROLLOUT.match(line)
    if begin is None or not line.endswith(_LINE_END):
        return None
    record = line[begin.end() : -len(_LINE_END)]
    try:
        done = RolloutDone.model_validate_json(record)
    except ValidationError:
        return None
    if not isfinite(_seconds(done)):
        return None  # Written as it was, Postgres would not know the number.
    return LoggedRollout.of(done, record)


def _seconds(done: RolloutDone) -> float:
    """All of a rollout's floats that may be no number, in one."""
    outcome = done.outcome
    judged_s = outcome.elapsed_s if isinstance(outcome, Failure) else outcome.latency_s
    turns_s = sum(turn.began_at + turn.sampling_s + turn.tools_s for turn in done.turn_times)
    return done.duration_s + done.sampling_s + done.tools_s + done.grading_s + judged_s + turns_s
