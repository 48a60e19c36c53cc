"""The log goes on where it ended, whatever the last process left behind."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.events import EventLine, Notice, StepDone
from rft.core.step_record import CheckpointInfo, Timing
from rft.run_directory.event_log import CorruptLog
from rft.trainer.events import EventWriter


def notice(text: str) -> Notice:
    return Notice(level="info", message=text)


def step_done(step: int) -> StepDone:
    return StepDone(
        step=step, total_steps=9, epoch=0, train=None, valid=None, optimization=None,
        timing=Timing(sampling_s=0, tools_s=0, grading_s=0, training_s=0, eval_s=0, full_step_s=0),
        checkpoint=CheckpointInfo(path=f"checkpoints/checkpoint-{step}", kept_steps=(step,)),
    )  # fmt: skip


def read(path: Path) -> list[EventLine]:
    return [EventLine.model_validate_json(line) for line in path.read_bytes().splitlines()]


def test_numbers_go_on_and_steps_are_remembered_over_processes(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for step in range(3):
        writer = EventWriter(path, clock=lambda: 5.0)
        assert writer.completed_steps == set(range(step))
        writer.append(notice("line\nbreak"))
        writer.append(step_done(step))
        writer.close()
    lines = read(path)
    assert [line.seq for line in lines] == [1, 2, 3, 4, 5, 6]
    assert {line.at for line in lines} == {5.0}


def full_disk(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_run_that_has_told_nothing_for_a_while_writes_that_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    writer = EventWriter(tmp_path / "events.jsonl")
    for now_s in range(0, 3_600, 5):
        writer.note_alive()
        if now_s == 1_800:
            writer.append(notice("something"))
    monkeypatch.setattr("rft.trainer.events.append_whole", full_disk)
    now_s = 4_000
    writer.note_alive()
    writer.close()
    types = [line.event.type for line in read(tmp_path / "events.jsonl")]
    assert types.count("notice") == 1
    assert 110 <= types.count("still_waiting") <= 120, "every half minute"


@given(cut=st.integers(0, 10_000))
def test_any_torn_tail_is_cut_and_written_over(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("log") / "events.jsonl"
    writer = EventWriter(path)
    for number in range(4):
        writer.append(notice(f"é {number}"))
    writer.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: cut % (len(whole) + 1)])
    survivors = path.read_bytes().count(b"\n")
    writer = EventWriter(path)
    writer.append(notice("after"))
    writer.close()
    lines = read(path)
    assert [line.seq for line in lines] == list(range(1, survivors + 2))
    assert lines[-1].event == notice("after")


@pytest.mark.parametrize("bad", [b'{"seq":3,"at":0,"event":{}}\n', b"nonsense\n"])
def test_a_whole_line_that_does_not_belong_is_not_passed_over(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "events.jsonl"
    writer = EventWriter(path)
    writer.append(notice("one"))
    writer.close()
    path.write_bytes(path.read_bytes() + bad + path.read_bytes())
    with pytest.raises(CorruptLog):
        EventWriter(path)
