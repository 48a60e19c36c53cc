"""Lines of the event log: a rollout's text is kept as it came, and nothing is accepted that is no event."""

import json
from math import isfinite

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from rft.core.events import EventLine, RolloutDone
from rft.core.failure import Failure
from rft.platform.worker.log_line import LoggedRollout, UnreadRollout, read_line
from rft.run_directory.event_log import CorruptLog
from tests.shared.train_events import numbered, rollout_done, whole_run

LINES = [line.model_dump_json().encode() + b"\n" for line in numbered(whole_run("ftjob-a", steps=1))]
GRADED, FAILED = (
    EventLine(seq=7, at=1790000000.25, event=rollout_done("ftjob-a", 1, 0, failed=failed)) for failed in (False, True)
)


def of_trainer(line: EventLine) -> bytes:
    return line.model_dump_json().encode() + b"\n"


def place_of(name: bytes) -> int:
    """Where the value of a rollout's field begins in its line."""
    return of_trainer(GRADED).index(b'"' + name + b'":') + len(name) + 3


def rollout_of(raw: bytes) -> LoggedRollout:
    event = read_line(raw).event
    assert isinstance(event, UnreadRollout)
    return event.read()


def test_what_is_no_rollout_is_read_as_it_is() -> None:
    for raw in LINES:
        line, expected = read_line(raw), EventLine.model_validate_json(raw)
        assert (line.seq, line.at) == (expected.seq, expected.at)
        assert isinstance(line.event, UnreadRollout) == isinstance(expected.event, RolloutDone)
        assert isinstance(line.event, UnreadRollout) or line.event == expected.event


@pytest.mark.parametrize("line", [GRADED, FAILED], ids=["graded", "failed"])
def test_a_rollouts_text_is_kept_byte_for_byte(line: EventLine) -> None:
    raw = of_trainer(line)
    assert raw == b'{"seq":7,"at":1790000000.25,"event":' + rollout_of(raw).record + b"}\n"


def test_a_rollouts_columns_are_what_its_text_says() -> None:
    graded, failed = rollout_of(of_trainer(GRADED)), rollout_of(of_trainer(FAILED))
    assert (graded.split, graded.step, graded.row_index, graded.group_index, graded.attempt) == ("train", 1, 0, 0, 0)
    assert (graded.reward, graded.failure_code, graded.stop_reason, graded.tool_calls) == (1.0, None, "completed", 3)
    assert (failed.reward, failed.failure_code, failed.failure_stage) == (None, "timeout", "tool")
    assert failed.stop_reason is None


@pytest.mark.parametrize("separators", [(", ", ": "), (",\t", ":")], ids=["blanks", "tabs"])
@pytest.mark.parametrize("is_sorted", [True, False], ids=["sorted", "in order"])
def test_a_line_written_in_another_way_is_read_all_the_same(separators: tuple[str, str], is_sorted: bool) -> None:
    content = json.loads(GRADED.model_dump_json())
    raw = json.dumps(content, separators=separators, sort_keys=is_sorted).encode() + b"\n"
    line = read_line(raw)
    assert (line.seq, line.at) == (GRADED.seq, GRADED.at)
    assert RolloutDone.model_validate_json(rollout_of(raw).record) == GRADED.event


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
@pytest.mark.parametrize("name", [b"duration_s", b"sampling_s", b"tools_s", b"grading_s", b"latency_s"])
def test_a_number_that_json_does_not_have_is_never_passed_on(name: bytes, number: bytes) -> None:
    head, tail = of_trainer(GRADED).split(b'"' + name + b'":')
    raw = head + b'"' + name + b'":' + number + tail.lstrip(b"0123456789.")
    assert number not in rollout_of(raw).record


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
@pytest.mark.parametrize("place", range(3))
def test_nor_one_among_the_times_of_turns(place: int, number: bytes) -> None:
    times = [b"1790000000.5", b"0.25", b"1.5"]
    times[place] = number
    turn = b'{"began_at":%b,"sampling_s":%b,"tools_s":%b,"completion_tokens":3}' % tuple(times)
    raw = of_trainer(GRADED).replace(b'"turn_times":[]', b'"turn_times":[' + turn + b"]")
    assert number in raw
    assert number not in rollout_of(raw).record


@pytest.mark.parametrize(
    "raw",
    [
        of_trainer(GRADED)[:-2] + b"]\n",
        of_trainer(GRADED)[:-2] + b',"more":1}\n',
        of_trainer(GRADED).replace(b'"turns":2', b'"turns":2,"more":1'),
        of_trainer(GRADED).replace(b'"turns":2,', b""),
        of_trainer(GRADED).replace(b'"role":"user"', b'"role":"nobody"'),
        of_trainer(GRADED).replace(b'"seq":7', b'"seq":07'),
    ],
    ids=["another bracket", "more in the line", "more in the event", "less in the event", "a strange role", "octal"],
)
def test_what_is_no_event_is_refused(raw: bytes) -> None:
    with pytest.raises(CorruptLog, match="cannot be read"):
        rollout_of(raw)


@given(
    at=st.integers(0, len(of_trainer(GRADED)) - 2),
    length=st.integers(0, 3),
    put=st.binary(max_size=3) | st.sampled_from([b"}", b'"', b"}}", b"1", b"-", b" ", b"\\", b"null", b"NaN", b"0."]),
)
@example(at=len(of_trainer(GRADED)) - 2, length=1, put=b"} ")
@example(at=len(of_trainer(GRADED)) - 2, length=0, put=b"}")
@example(at=place_of(b"latency_s"), length=3, put=b"NaN")
@example(at=place_of(b"grading_s"), length=3, put=b"NaN")
def test_a_damaged_line_is_read_exactly_when_it_is_still_an_event(at: int, length: int, put: bytes) -> None:
    raw = of_trainer(GRADED)[:-1]
    damaged = (raw[:at] + put + raw[at + length :]).replace(b"\n", b" ") + b"\n"
    try:
        expected = EventLine.model_validate_json(damaged)
    except ValidationError:
        with pytest.raises(CorruptLog):
            rollout_of(damaged)
        return
    line = read_line(damaged)
    assert (line.seq, line.at) == (expected.seq, expected.at)
    assert isinstance(expected.event, RolloutDone)
    read = rollout_of(damaged)
    assert (read.trace_id, read.step) == (expected.event.trace_id, expected.event.key.step)
    done = expected.event
    judged_s = done.outcome.elapsed_s if isinstance(done.outcome, Failure) else done.outcome.latency_s
    if isfinite(done.duration_s + done.sampling_s + done.tools_s + done.grading_s + judged_s):
        assert RolloutDone.model_validate_json(read.record) == expected.event
