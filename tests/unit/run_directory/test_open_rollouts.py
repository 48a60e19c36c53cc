"""The journal of open rollouts says the same whenever its process dies."""

import uuid
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.core.ids import trace_id
from rft.run_directory.open_rollouts import MOST_UNTOLD, OpenRolloutsFile

IDS = [trace_id(uuid.UUID(int=number)) for number in range(5)]


def test_what_was_begun_and_not_closed_is_left_for_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "open.log"
    first = OpenRolloutsFile(path)
    assert first.left == []
    for one in IDS:
        first.begin(one)
    first.close(IDS[1], is_over=True)
    first.shut()
    second = OpenRolloutsFile(path)
    assert second.left == [IDS[0], IDS[2], IDS[3], IDS[4]]
    for one in second.left:
        second.close(one, is_over=True)
    second.shut()
    assert OpenRolloutsFile(path).left == []
    assert path.stat().st_size == 0


@pytest.mark.parametrize("begun", [1, 3])
def test_a_run_that_always_has_some_open_has_a_short_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: int
) -> None:
    monkeypatch.setattr("rft.run_directory.open_rollouts._MOST_LINES", 10)
    path, ids = tmp_path / "open.log", [trace_id(uuid.UUID(int=number)) for number in range(200)]
    book = OpenRolloutsFile(path)
    for number, one in enumerate(ids):
        book.begin(one)
        if number >= begun:
            book.close(ids[number - begun], is_over=True)
        if number % 50 == 0:
            book.shut()
            book = OpenRolloutsFile(path)
        assert OpenRolloutsFile(path).left == ids[max(0, number + 1 - begun) : number + 1]
        assert path.stat().st_size < 30 * 45
    book.shut()


def test_a_run_without_hosts_has_no_journal(tmp_path: Path) -> None:
    book = OpenRolloutsFile(tmp_path / "open.log")
    book.shut()
    assert not (tmp_path / "open.log").exists()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    lives=st.lists(
        st.tuples(st.lists(st.tuples(st.booleans(), st.sampled_from(IDS)), max_size=12), st.integers(0, 60)), max_size=4
    )
)
def test_whenever_a_process_dies_only_its_torn_last_line_is_lost(
    tmp_path: Path, lives: list[tuple[list[tuple[bool, str]], int]]
) -> None:
    """Each life notes things, then dies with a beginning half written."""
    path = tmp_path / "open.log"
    path.unlink(missing_ok=True)
    is_open: dict[str, None] = {}
    for noted, torn in lives:
        book = OpenRolloutsFile(path)
        assert set(book.left) == set(is_open)
        for is_beginning, one in noted:
            if is_beginning:
                book.begin(one)
                is_open[one] = None
            else:
                book.close(one, is_over=True)
                is_open.pop(one, None)
        book.shut()
        with path.open("ab") as log:
            log.write(f"+{trace_id(uuid.UUID(int=9))}\n".encode()[: min(torn, 42)])
    assert set(OpenRolloutsFile(path).left) == set(is_open)


def test_an_end_that_could_not_be_told_stays_open_for_whoever_tries_again(tmp_path: Path) -> None:
    path = tmp_path / "open.log"
    book = OpenRolloutsFile(path)
    for one in IDS[:2]:
        book.begin(one)
    book.close(IDS[0], is_over=True)
    book.close(IDS[1], is_over=False)
    book.shut()
    assert OpenRolloutsFile(path).left == [IDS[1]]
    again = OpenRolloutsFile(path)
    again.close(IDS[1], is_over=True)
    again.shut()
    assert OpenRolloutsFile(path).left == []


def test_of_many_ends_that_could_not_be_told_the_latest_stay_open(tmp_path: Path) -> None:
    path = tmp_path / "open.log"
    book = OpenRolloutsFile(path)
    ids = [trace_id(uuid.UUID(int=number)) for number in range(MOST_UNTOLD + 2)]
    for one in ids:
        book.begin(one)
        book.close(one, is_over=False)
    book.begin(IDS[0])
    book.shut()
    assert OpenRolloutsFile(path).left == [*ids[2:], IDS[0]]


OUTCOMES: list[Grade | Failure] = [
    Grade(reward=0.8, grader="exact", reply="what a judge said of the customer's data"),
    Failure(stage=Stage.TOOL, code=FailureCode.TIMEOUT, message="what a server said", status=503),
]


def test_how_a_rollout_ended_is_told_again_as_it_was_and_nothing_else_of_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rft.run_directory.open_rollouts._MOST_LINES", 0)
    path = tmp_path / "open.log"
    book = OpenRolloutsFile(path)
    for one in IDS:
        book.begin(one)
    for one, outcome in zip(IDS, OUTCOMES, strict=False):
        book.end(one, outcome)
        book.close(one, is_over=False)
    left = list(IDS)
    while left[2:]:
        book.close(left.pop(), is_over=True)  # Cuts the journal down.
        book.shut()
        book = OpenRolloutsFile(path)
        assert book.left == left
        assert book.outcomes == {
            IDS[0]: Grade(reward=0.8, grader=""),
            IDS[1]: Failure(stage=Stage.TOOL, code=FailureCode.TIMEOUT, message=""),
        }
        assert b"what a" not in path.read_bytes()


def test_a_torn_outcome_is_none(tmp_path: Path) -> None:
    path = tmp_path / "open.log"
    whole = f'+{IDS[0]}\n={IDS[0]} {{"reward": 0.8}}\n'
    for size in range(len(IDS[0]) + 2, len(whole)):
        path.write_text(whole[:size])
        book = OpenRolloutsFile(path)
        assert (book.left, book.outcomes) == ([IDS[0]], {})
        book.begin(IDS[1])
        book.shut()
        assert OpenRolloutsFile(path).left == IDS[:2]


def test_the_next_end_counts_though_a_full_disk_cut_off_the_one_before_it(tmp_path: Path) -> None:
    path = tmp_path / "open.log"
    path.write_text(f'+{IDS[0]}\n+{IDS[1]}\n={IDS[0]} {{"reward": 0.={IDS[1]} {{"reward": 1.0}}\n')
    book = OpenRolloutsFile(path)
    assert (book.left, book.outcomes) == (IDS[:2], {IDS[1]: Grade(reward=1.0, grader="")})


def test_an_end_that_this_release_does_not_know_is_left_open(tmp_path: Path) -> None:
    path = tmp_path / "open.log"
    path.write_text(f'+{IDS[0]}\n={IDS[0]} {{"stage": "tool", "code": "of_another_release"}}\n')
    book = OpenRolloutsFile(path)
    assert (book.left, book.outcomes) == (IDS[:1], {})
