"""Following a job over lines that break."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from rft.platform.cli.chart import DOT, Point
from rft.platform.cli.client import ConnectionLost, NotFound, PlatformProblem, Sent
from rft.platform.cli.watch import Screen, Watched, follow, watch_in_lines


def job(status: str = "running", **more: Any) -> tuple[str, dict[str, Any]]:
    """The job's object."""
    body = {"id": "ftjob-1", "created_at": 0, "model": "tiny", "status": status, "training_file": "file-1"}
    return "job", {**body, "total_steps": 3, "current_step": 1, **more}


def step(number: int, train: float | None = 0.5, valid: float | None = None) -> tuple[str, dict[str, Any]]:
    """A finished step."""

    def split(reward: float | None) -> dict[str, Any] | None:
        if reward is None:
            return None
        return {"rollouts": 8, "excluded": 2, "excluded_share": 0.25, "reward_mean": reward}

    return "step", {"step": number, "record": {"total_steps": 3, "train": split(train), "valid": split(valid)}}


def event(number: int, message: str = "happened", level: str = "info") -> tuple[str, dict[str, Any]]:
    """One event."""
    return "event", {
        "id": f"ftevent-{number}",
        "created_at": number,
        "level": level,
        "message": message,
        "type": "message",
    }


class Platform:
    """Tells a history as the real one does; the n-th line breaks after so many messages."""

    def __init__(self, told: list[tuple[str, dict[str, Any]]], breaks: list[int]) -> None:
        self._told, self._breaks = told, iter(breaks)
        self.asked: list[str | None] = []

    def stream(self, last_id: str | None = None) -> Iterator[Sent]:
        """From the last id on; the job's object first."""
        self.asked.append(last_id)
        left = next(self._breaks, 10**9)
        seq = 0
        after = int(last_id or 0)
        for name, data in self._told:
            seq += name == "event"
            # A step has no id of its own: it comes with the event after it.
            if name == "job" or seq >= after + (name == "event"):
                if left == 0:
                    raise ConnectionLost("the connection broke")
                left -= 1
                yield Sent(name, json.dumps(data), str(seq) if name == "event" else str(max(after, seq)))


def patient(waits: list[float] | None = None, **more: Any) -> dict[str, Any]:
    """Waits for nothing, and remembers how long it would have."""
    return {"wait": [].append if waits is None else waits.append, **more}


def test_the_history_is_heard_to_its_end() -> None:
    watched = Watched()
    told = [job(), step(0, None, 0.1), event(1), step(1, 0.5), event(2), job("succeeded")]
    heard = [e.raw["id"] for e in follow(Platform(told, []).stream, watched, **patient()) if e]
    assert heard == ["ftevent-1", "ftevent-2"]
    assert watched.points == [Point(0, None, 0.1), Point(1, 0.5, None)]
    assert watched.exit_status == 0


@pytest.mark.parametrize(("status", "exit_status"), [("succeeded", 0), ("failed", 1), ("cancelled", 2)])
def test_the_end_is_an_exit_status(status: str, exit_status: int) -> None:
    watched = Watched()
    list(follow(Platform([job(status)], []).stream, watched, **patient()))
    assert watched.exit_status == exit_status


@given(st.lists(st.integers(1, 6), max_size=8), st.integers(0, 6))
def test_however_often_the_line_breaks_everything_is_heard_once(breaks: list[int], steps: int) -> None:
    told = [job()]
    for number in range(steps):
        told += [step(number, number / 10), event(number + 1)]
    watched = Watched()
    platform = Platform([*told, job("succeeded")], breaks)
    heard = [e.raw["id"] for e in follow(platform.stream, watched, **patient(tries=100)) if e]
    assert heard == [f"ftevent-{number + 1}" for number in range(steps)]
    assert watched.points == [Point(number, number / 10, None) for number in range(steps)]
    assert watched.exit_status == 0


def test_a_broken_line_is_taken_up_after_the_last_message() -> None:
    platform = Platform([job(), event(1), event(2), event(3), job("succeeded")], [3])
    list(follow(platform.stream, Watched(), **patient()))
    assert platform.asked == [None, "2"]


def test_waits_grow_and_end() -> None:
    class Gone:
        has_been_there = False

        def stream(self, last_id: str | None = None) -> Iterator[Sent]:
            if not self.has_been_there:
                self.has_been_there = True
                yield Sent("job", json.dumps(job()[1]), "0")
            raise ConnectionLost("nobody answers")

    waits: list[float] = []
    watched = Watched()
    with pytest.raises(ConnectionLost, match="nobody answers"):
        list(follow(Gone().stream, watched, **patient(waits, first_s=1.0, longest_s=3.0, tries=4)))
    assert waits == [1.0, 2.0, 3.0, 3.0]
    assert watched.status_line(0).endswith("nobody answers; trying again")


@pytest.mark.parametrize("problem", [ConnectionLost("nobody answers"), NotFound("no such job")])
def test_a_job_that_was_never_reached_is_not_waited_for(problem: PlatformProblem) -> None:
    class Closed:
        def stream(self, last_id: str | None = None) -> Iterator[Sent]:
            raise problem
            yield

    waits: list[float] = []
    with pytest.raises(type(problem)):
        list(follow(Closed().stream, Watched(), **patient(waits)))
    assert waits == []


def test_steps_after_a_checkpoint_that_a_run_went_back_to_are_void() -> None:
    watched = Watched()
    for name, data in (step(1, 0.1), step(2, 0.2), step(3, 0.3), step(2, 0.9)):
        watched.apply(Sent(name, json.dumps(data), None))
    assert watched.points == [Point(1, 0.1, None), Point(2, 0.9, None)]


def test_the_status_line_tells_step_time_to_go_failures_and_why_it_waits() -> None:
    watched = Watched()
    for name, data in (step(1), job(estimated_finish=300)):
        watched.apply(Sent(name, json.dumps(data), None))
    assert watched.status_line(now=100) == "running · step 1/3 · about 3 min 20 s to go · excluded 25.0%"
    hold = {"endpoint": "tool 'search'", "reason": "it answers nothing", "since": 1, "step": 1}
    watched.apply(Sent("job", json.dumps(job("paused", hold=hold)[1]), None))
    assert watched.status_line(now=100) == ("held (tool 'search') · step 1/3 · excluded 25.0% · it answers nothing")
    watched.apply(Sent("job", json.dumps(job("failed", error={"message": "no signal"})[1]), None))
    assert watched.status_line(now=100).endswith("no signal")


def screen(watched: Watched, *, width: int = 80, height: int = 30) -> str:
    """What a terminal of this size shows."""
    console = Console(width=width, height=height, record=True, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(Screen(watched))
    return captured.get()


def test_the_screen_shows_curve_state_and_the_latest_events() -> None:
    watched = Watched()
    told = [job(), *(step(number, number / 10, number / 20) for number in range(1, 9))]
    for name, data in [*told, *(event(number, f"event {number}") for number in range(20))]:
        watched.apply(Sent(name, json.dumps(data), None))
    shown = screen(watched)
    assert "ftjob-1  tiny" in shown
    assert DOT in shown
    assert "step 1/3" in shown
    assert "event 19" in shown
    assert "event 13" not in shown


@pytest.mark.parametrize(("width", "height"), [(20, 5), (30, 10), (200, 60)])
def test_the_screen_fits(width: int, height: int) -> None:
    watched = Watched()
    for name, data in (job(), step(1, 0.1, 0.2), event(1, "a long story " * 20)):
        watched.apply(Sent(name, json.dumps(data), None))
    assert max(map(len, screen(watched, width=width, height=height).splitlines())) <= width


def test_before_the_first_step_the_screen_says_so() -> None:
    assert "no rewards yet" in screen(Watched())
    assert "connecting" in screen(Watched())


def test_a_queued_job_says_whose_slot_it_waits_for() -> None:
    watched = Watched()
    taken = [{"job": "ftjob-2", "hold": None}, {"job": "ftjob-3", "hold": "tool 'search'"}]
    watched.apply(Sent("job", json.dumps(job("queued", waits_for=taken)[1]), None))
    message = "waits for one of the slots of ftjob-2, ftjob-3 (held: tool 'search')"
    assert watched.status_line(0.0).endswith(message)
    watched.apply(Sent("job", json.dumps(job("queued", waits_for=taken[:1])[1]), None))
    assert watched.status_line(0.0).endswith("waits for the slot of ftjob-2")


def test_lines_tell_events_and_changes_of_state() -> None:
    watched = Watched()
    told = [job("queued"), job(), event(1, "first"), event(2, "\x1b[31mred\x1b[0m [bold]", "warn"), job("cancelled")]
    console = Console(width=1000, force_terminal=False)
    with console.capture() as captured:
        watch_in_lines(follow(Platform(told, []).stream, watched, **patient()), watched, console)
    lines = [line.split("  ", 1)[1] for line in captured.get().splitlines()[:-1]]
    assert lines == [
        "state queued",
        "state running",
        "info first",
        "warn \ufffd[31mred\ufffd[0m [bold]",
        "state cancelled",
    ]
    assert captured.get().splitlines()[-1] == "cancelled · step 1/3"
