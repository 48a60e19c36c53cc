"""Runs on two ranks: killed, stopped, held and taken up again, with the weights of an undisturbed one."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from rft.core.devices import Devices
from rft.core.egress_settings import EgressSettings
from rft.core.events import Notice, RunEnded, StepDone
from rft.core.spec import HoldRule, RetryBudget, ShardBase
from rft.run_directory import layout
from tests.e2e.trainer.grade_gate import only_grades, wait_for_ends
from tests.e2e.trainer.harness import Customer, Trainer, adapter_bytes, events, letter_share, write_run
from tests.e2e.trainer.trainer_process import TrainerProcess, launch_ranks
from tests.shared.forked import Forked
from tests.shared.free_port import free_port
from tests.shared.waiting import is_gone

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]
TWO = Devices(cpu_ranks=2)
RANK = "rft.trainer.ranks.process"
ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())


def other_rank(trainer: Trainer) -> psutil.Process:
    """Once it is there."""
    deadline = time.monotonic() + 120
    while True:
        assert trainer.process.poll() is None, (trainer.run_dir / layout.LOG).read_text()[-2000:]
        for child in psutil.Process(trainer.process.pid).children():
            with suppress(psutil.NoSuchProcess):  # Other children come and go.
                if RANK in child.cmdline():
                    return child
        assert time.monotonic() < deadline
        time.sleep(0.01)


def wait_gone(process: psutil.Process) -> None:
    deadline = time.monotonic() + 60
    while not is_gone(process.pid):
        assert time.monotonic() < deadline, "a rank outlives its run"
        time.sleep(0.01)


def last(run_dir: Path) -> RunEnded:
    ended = events(run_dir)[-1].event
    assert isinstance(ended, RunEnded), ended
    return ended


def test_a_run_whose_rank_is_killed_and_that_is_stopped_ends_with_the_bytes_of_an_undisturbed_one(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    straight = write_run(tmp_path / "straight", base_model, customer.url, steps=2, valid_rows=0, devices=TWO)
    assert Trainer.start(straight).wait() == 0
    alone = write_run(tmp_path / "alone", base_model, customer.url, steps=2, valid_rows=0)
    assert Trainer.start(alone).wait() == 0
    disturbed = write_run(tmp_path / "disturbed", base_model, customer.url, steps=2, valid_rows=0, devices=TWO)

    is_suspended = threading.Event()

    def score(text: str) -> float:
        is_suspended.wait(120)
        return letter_share(text)

    customer.score = score
    trainer = Trainer.start(disturbed)
    trainer.wait_for("step_done")  # The baseline's: the rank is set up.
    rank = other_rank(trainer)
    rank.suspend()  # So that the first step cannot be computed to its end.
    is_suspended.set()
    wait_for_ends(trainer, 8)
    rank.kill()
    assert trainer.wait() == 76
    *_, lost = [line.event for line in events(disturbed)]
    assert isinstance(lost, Notice)
    assert (lost.code, lost.level) == ("rank_lost", "warn")
    assert lost.message == (
        "Rank 1 of 2 was killed by SIGKILL; perhaps the host ran out of memory. The run goes on from its last complete"
        " checkpoint with its next launch."
    )
    assert "rank 1 of 2 was killed by SIGKILL" in (disturbed / layout.LOG).read_text()

    with only_grades(customer, 3):  # The first step's are kept: the second one cannot come to its end.
        trainer = Trainer.start(disturbed)
        wait_for_ends(trainer, 8 + 3)
        rank = other_rank(trainer)
        rank.send_signal(signal.SIGTERM)  # As when the platform stops the process group: it is rank 0's to say when.
        trainer.signal(signal.SIGTERM)
        assert trainer.wait() == 0
    customer.hear_the_last_of(trainer)
    wait_gone(rank)
    assert last(disturbed).outcome == "stopped"

    with only_grades(customer, 0):
        trainer = Trainer.start(disturbed)
        rank = other_rank(trainer)
        trainer.signal(signal.SIGKILL)
        assert trainer.wait() == -signal.SIGKILL
    customer.hear_the_last_of(trainer)
    wait_gone(rank)

    assert Trainer.start(disturbed).wait() == 0
    assert last(disturbed).outcome == "succeeded"
    assert [line.event.step for line in events(disturbed) if isinstance(line.event, StepDone)] == [0, 1, 2]
    assert adapter_bytes(disturbed, 2) == adapter_bytes(straight, 2)
    figures = [[line.event.optimization for line in events(run) if isinstance(line.event, StepDone)] for run in
               (straight, alone)]  # fmt: skip
    for ours, theirs in zip(*figures, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:
            assert ours.trained_tokens == theirs.trained_tokens
            assert ours.loss == pytest.approx(theirs.loss, rel=1e-3, abs=1e-6)
            assert ours.grad_norm == pytest.approx(theirs.grad_norm, rel=1e-3)


def test_ranks_wait_while_a_step_is_held(customer: Customer, base_model: Path, tmp_path: Path) -> None:
    is_repaired = threading.Event()

    def is_down(path: str) -> bool:
        calls = sum(received.path == path for received in customer.received)
        return path == "/tool" and not is_repaired.is_set() and calls >= 5

    customer.is_down = is_down
    run_dir = write_run(
        tmp_path / "run", base_model, customer.url, steps=1, group_size=16, valid_rows=0,
        retry=RetryBudget(max_retries=30, first_wait_s=0.05, max_wait_s=0.2),
        egress=EgressSettings(has_adaptive_limits=True), hold=HoldRule(), devices=TWO, shard_base=ShardBase.ALWAYS,
    )  # fmt: skip
    trainer = Trainer.start(run_dir)
    trainer.wait_for("hold_began")
    assert other_rank(trainer).is_running()
    is_repaired.set()
    assert trainer.wait() == 0
    assert last(run_dir).outcome == "succeeded"
    step = next(line.event for line in events(run_dir) if isinstance(line.event, StepDone) and line.event.step == 1)
    assert step.optimization is not None
    assert step.optimization.trained_rollouts == 32


LAUNCHER = """
import sys
from pathlib import Path
import tests.e2e.trainer.imported_trainer
from tests.e2e.trainer.trainer_process import launch_ranks
launch_ranks(Path(sys.argv[1]), {})
"""


@contextmanager
def launched_together(run_dir: Path, *, is_anew: bool = False) -> Generator[TrainerProcess]:
    """Two ranks as `torchrun` starts them: by its variables, each in a session of its own.

    `is_anew`: in a new interpreter that gets the variables from its start, and no fork of one that has begun.
    """
    together = {
        "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
        "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    launcher: TrainerProcess
    if is_anew:
        with (run_dir / layout.LOG).open("ab") as log:
            launcher = subprocess.Popen(
                [sys.executable, "-c", LAUNCHER, str(run_dir)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **together}, cwd=ROOT,
            )  # fmt: skip
    else:
        launcher = Forked(launch_ranks, run_dir, together)
    try:
        yield launcher
    finally:
        launcher.send_signal(signal.SIGKILL)
        launcher.wait()


def test_ranks_that_were_launched_together_make_one_run_and_end_with_their_launcher(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    is_over = threading.Event()

    def score(text: str) -> float:
        is_over.wait(120)
        return letter_share(text)

    customer.score = score
    run_dir = write_run(tmp_path / "run", base_model, customer.url, steps=1, valid_rows=0, shard_base=ShardBase.ALWAYS)
    with launched_together(run_dir) as launcher:
        Trainer(run_dir, launcher).wait_for("step_done")  # The baseline's: both are there. Then grades are waited for.
        ranks = psutil.Process(launcher.pid).children()
        assert len(ranks) == 2
    for rank in ranks:
        wait_gone(rank)
    is_over.set()
    with launched_together(run_dir, is_anew=True) as launcher:
        assert launcher.wait(400) == 0, (run_dir / layout.LOG).read_text()[-3000:]
    assert last(run_dir).outcome == "succeeded"
    with launched_together(run_dir) as launcher:
        assert launcher.wait(400) == 0, "where nothing is left to do, the other rank is told as well"


def test_more_ranks_than_cores_pause_the_run_in_words(customer: Customer, base_model: Path, tmp_path: Path) -> None:
    run_dir = write_run(tmp_path / "run", base_model, customer.url, devices=Devices(cpu_ranks=999))
    assert Trainer.start(run_dir).wait() == 0
    ended = last(run_dir)
    assert (ended.outcome, ended.error_code) == ("paused", "devices_unfit")
    assert str(ended.error_message).startswith("RFT_DEVICES asks for 999 ranks on the CPU, and this host lets us have")
