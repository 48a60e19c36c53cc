"""A full disk is named and waited for, and uses up no launch."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rft.core.events import RunEnded
from rft.platform.worker import disk_room
from rft.platform.worker.disk_room import DiskRoom
from rft.platform.worker.run_job import run_job
from rft.platform.worker.validate_job import validate_job
from rft.run_directory import layout
from rft.scratch.disk import EXIT_DISK_FULL, free_bytes
from rft.scratch.folder import ScratchFolder
from tests.integration.worker.running import cancel
from tests.integration.worker.scripted_trainer import Fault, Plan
from tests.integration.worker.workbench import Workbench
from tests.shared.waiting import until
from tests.small_disk import small_disk

MEGABYTE = 1 << 20
LEAVE = """
import os, sys
from pathlib import Path
from rft.scratch.folder import ScratchFolder
held = ScratchFolder({prefix!r}, parent=Path(sys.argv[1]))
(held.path / "left").write_text("x")
os.kill(os.getpid(), 9)
"""


async def run_and_wait(code: str, *arguments: object) -> int:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, *map(str, arguments))
    return await process.wait()


@pytest.fixture
def runs_disk(bench: Workbench) -> Iterator[Path]:
    """Eight megabytes for all runs, two of which must be free; a job that dies twice without progress has failed."""
    bench.changed_settings |= {"min_free_bytes": 2 * MEGABYTE, "max_launches_without_progress": 1}
    with small_disk(bench.settings.runs_dir, megabytes=8) as folder:
        yield folder


def fill(folder: Path, *, but_bytes: int) -> Path:
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(free_bytes(folder) - but_bytes))
    return ballast


async def codes(bench: Workbench, job_id: str) -> list[str]:
    query = "select data->>'code' as code from job_events where job_id = %s and data ? 'code' order by seq"
    return [row["code"] for row in await bench.all(query, job_id)]


async def is_held(bench: Workbench, job_id: str) -> bool:
    row = await bench.job(job_id)
    return row["status"] == "paused" and row["hold"] is not None


async def held(bench: Workbench, job_id: str) -> None:
    await until(lambda: is_held(bench, job_id), f"{job_id} to be held")


async def test_a_job_waits_for_room_before_its_trainer_is_started(bench: Workbench, runs_disk: Path) -> None:
    job_id = await bench.queued_job()
    ballast = fill(runs_disk, but_bytes=MEGABYTE)
    running = asyncio.create_task(run_job(job_id, bench.context()))
    await held(bench, job_id)
    job = await bench.job(job_id)
    assert (job["hold"]["endpoint"], job["hold"]["stage"]) == ("the disk of the runs", "platform")
    assert "2.1 MB must be free, 1.0 MB are" in job["hold"]["reason"]
    assert (job["launches"], job["launches_without_progress"], bench.launches) == (0, 0, [])
    ballast.unlink()
    assert await running == "over"
    assert (await bench.job(job_id))["status"] == "succeeded"
    told = [code for code in await codes(bench, job_id) if code in ("disk_full", "hold_ended")]
    assert told == ["disk_full", "hold_ended"]
    await bench.assert_every_step_once(job_id, steps=3)


async def test_a_job_waits_for_room_for_temporary_files_and_names_their_disk(
    bench: Workbench, runs_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "temporary", megabytes=4) as temporary:
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        job_id = await bench.queued_job()
        fill_runs, ballast = fill(runs_disk, but_bytes=MEGABYTE), fill(temporary, but_bytes=0)
        running = asyncio.create_task(run_job(job_id, bench.context()))

        async def is_held_by(disk: str) -> bool:
            hold = (await bench.job(job_id))["hold"]
            return hold is not None and hold["endpoint"] == disk

        await until(lambda: is_held_by("the disk of the runs"), "the job to wait for the runs' disk")
        fill_runs.unlink()
        await until(lambda: is_held_by("the disk of temporary files"), "the job to wait for the other disk")
        reason = (await bench.job(job_id))["hold"]["reason"]
        assert reason.startswith(f"The disk that holds temporary files ({temporary}) is full: at least 1.0 MB must be")
        ballast.unlink()
        assert await running == "over"
    job = await bench.job(job_id)
    assert (job["status"], job["launches"], job["error"]) == ("succeeded", 1, None)
    told = [code for code in await codes(bench, job_id) if code in ("disk_full", "hold_ended")]
    assert told == ["disk_full", "hold_ended"] * 2


async def test_a_job_waits_for_a_disk_that_does_not_say_what_is_free(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    away: list[Path] = [bench.settings.runs_dir]

    def ask(folder: Path) -> int:
        if folder in away:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return free_bytes(folder)

    monkeypatch.setattr(disk_room, "free_bytes", ask)
    job_id = await bench.queued_job()
    running = asyncio.create_task(run_job(job_id, bench.context()))

    async def is_held_or_over() -> bool:
        return running.done() or await is_held(bench, job_id)

    await until(is_held_or_over, f"{job_id} to be held")
    hold = (await bench.job(job_id))["hold"]
    assert hold is not None, running
    assert hold["reason"].startswith("The disk that holds the runs does not say how much room it has: [Errno 5]")
    away.clear()
    assert await running == "over"
    job = await bench.job(job_id)
    assert (job["status"], job["launches"]) == ("succeeded", 1)


def test_a_disk_that_fell_silent_when_it_was_full_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = DiskRoom(tmp_path, 1)

    def ask(folder: Path) -> int:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(disk_room, "free_bytes", ask)
    room.ran_out()
    lack = room.lacking()
    assert lack is not None
    assert "does not say how much room it has" in lack.reason


async def test_a_job_whose_temporary_files_ran_out_of_room_waits_for_more_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        small_disk(tmp_path / "temporary", megabytes=4) as temporary,
        small_disk(tmp_path / "runs", megabytes=8) as runs,
    ):
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        ballast, room = fill(temporary, but_bytes=2 * MEGABYTE), DiskRoom(runs, MEGABYTE)
        assert room.lacking() is None
        room.ran_out()
        lack = room.lacking()
        assert lack is not None
        assert lack.disk == "the disk of temporary files"
        ballast.unlink()
        assert room.lacking() is None


async def test_a_trainer_that_runs_out_of_room_uses_no_launch_up(bench: Workbench, runs_disk: Path) -> None:
    bench.plan(Plan(faults=tuple(Fault(launch=launch, step=2, how="fill") for launch in (1, 2, 3))))
    job_id = await bench.queued_job()
    running = asyncio.create_task(run_job(job_id, bench.context()))
    for launch in (1, 2, 3):
        await until(lambda launch=launch: len(bench.launches) == launch, f"launch {launch}")
        await held(bench, job_id)
        (runs_disk / job_id / "ballast").unlink()
    assert await running == "over"
    job = await bench.job(job_id)
    assert (job["status"], job["launches"], job["error"]) == ("succeeded", 4, None)
    assert (await codes(bench, job_id)).count("disk_full") == 3
    assert not [
        message for message in await bench.messages(job_id) if "exited" in message or "without a word" in message
    ]
    await bench.assert_every_step_once(job_id, steps=3)


@pytest.mark.parametrize("requested", ["cancelled", "paused"])
async def test_a_job_that_waits_for_room_can_be_cancelled_and_paused(
    bench: Workbench, runs_disk: Path, requested: str
) -> None:
    job_id = await bench.queued_job()
    fill(runs_disk, but_bytes=MEGABYTE)
    running = asyncio.create_task(run_job(job_id, bench.context()))
    await held(bench, job_id)
    if requested == "cancelled":
        await cancel(bench, job_id)
    else:
        await bench.do("update jobs set is_pause_requested = true where id = %s", job_id)
    assert await running == requested
    job = await bench.job(job_id)
    assert (job["status"], job["hold"], job["lease_owner"]) == (requested, None, None)


def test_the_real_trainer_says_that_the_disk_is_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "run", megabytes=4) as folder:
        (folder / layout.SPEC).write_text("{}")
        fill(folder, but_bytes=0)
        command = [sys.executable, "-m", "rft.trainer", str(folder)]
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert ended.returncode == EXIT_DISK_FULL, ended.stderr
        assert "the disk that holds the run is full" in ended.stderr
        (folder / "ballast").unlink()
        assert subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 1
        assert b'"error_code":"invalid_spec"' in (folder / layout.EVENTS).read_bytes()


async def test_what_a_killed_trainer_leaves_in_the_temporary_folder_is_swept(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    assert await run_and_wait(LEAVE.format(prefix="rft-trainer-"), place) == -signal.SIGKILL
    assert len(list(place.iterdir())) == 1
    living = ScratchFolder("rft-trainer-", parent=place)
    (place / "rft-trainer-of-somebody").mkdir()
    bench.plan(Plan(faults=(Fault(launch=1, step=2, how="kill"),)))
    bench.changed_settings |= {
        "trainer_command": [
            *(sys.executable, "-c"),
            "import sys, runpy, tempfile; tempfile.mkdtemp(); sys.argv = sys.argv[1:];"
            " runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)",
            *bench.settings.trainer_command[2:],
        ]
    }
    job_id = await bench.queued_job()
    assert await run_job(job_id, bench.context()) == "over"
    assert len(bench.launches) == 2
    assert {path.name for path in place.iterdir()} == {living.path.name, "rft-trainer-of-somebody"}
    living.remove()


async def test_what_a_killed_build_of_the_starter_leaves_is_swept(bench: Workbench) -> None:
    home = bench.settings.home
    home.mkdir(parents=True, exist_ok=True)
    await run_and_wait(LEAVE.format(prefix=".starter-build-"), home)
    [left] = home.glob(".starter-build-*")
    build = (
        "import sys, pathlib; target = pathlib.Path(sys.argv[-1]); target.mkdir();"
        " (target / 'config.json').write_text('{}')"
    )
    bench.changed_settings |= {"starter_command": [sys.executable, "-c", build]}
    job_id = await bench.new_job(base_model_path=str(bench.settings.starter_dir))
    assert await validate_job(job_id, bench.context()) == "queued"
    assert await run_job(job_id, bench.context()) == "over"
    assert (bench.settings.starter_dir / "config.json").exists()
    assert not list(home.glob(".starter-build-*"))
    assert not left.exists()


def test_a_log_line_that_does_not_fit_leaves_nothing_of_itself(tmp_path: Path) -> None:
    from rft.trainer.events import EventWriter

    with small_disk(tmp_path / "disk", megabytes=1) as folder:
        events = EventWriter(folder / layout.EVENTS)
        events.append(RunEnded(outcome="stopped", best_step=None))
        ballast = fill(folder, but_bytes=0)
        long = RunEnded(outcome="stopped", best_step=None, error_message="x" * 5_000)
        with pytest.raises(OSError, match="No space"):
            events.append(long)
        os.unlink(ballast)
        events.append(long)
        lines = (folder / layout.EVENTS).read_bytes().splitlines()
        assert [line[:8] for line in lines] == [b'{"seq":1', b'{"seq":2']
        events.close()
