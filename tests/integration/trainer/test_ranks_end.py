"""How ranks end: with the run, with each other, and never without a word."""

import errno
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import psutil
import pytest
import torch
from torch import distributed as dist
from transformers import PreTrainedTokenizerBase

from rft.core.devices import Devices
from rft.core.errors import RunAborted, RunFailed, RunPaused
from rft.core.hyperparameters import LoraSpec
from rft.engines.base_model import load_base_model
from rft.scratch.disk import EXIT_DISK_FULL
from rft.trainer.grpo import PolicyTrainer
from rft.trainer.ranks import other_ranks
from rft.trainer.ranks.messages import SetUp
from rft.trainer.ranks.other_ranks import BrokenPass, OtherRanks
from rft.trainer.ranks.processes import EXIT_RANK_LOST, RankLost, RankProcesses
from rft.trainer.ranks.world import local_world
from rft.trainer.samples import TrainingRow
from rft.trainer.step_figures import StepFigures
from rft.trainer.update_settings import UpdateSettings
from tests.shared.forked_ranks import STARTED

SETTINGS = UpdateSettings(
    steps=1, learning_rate=1e-2, lora=LoraSpec(rank=4, alpha=8), loss_type="dapo", temperature=1.0, seed=11
)
ROWS = [TrainingRow((5, 6), (7, 8), (True, True), (-1.0, -1.0), 1.0)] * 2


def own_children() -> list[psutil.Process]:
    forked = [psutil.Process(rank.pid) for rank in STARTED if rank.poll() is None]
    started = [child for child in psutil.Process().children() if "rft.trainer.ranks.process" in child.cmdline()]
    return [*forked, *started]


def test_a_rank_that_dies_is_told_at_once_and_ends_the_step(
    base_model: Path, tokenizer: PreTrainedTokenizerBase, processes: RankProcesses, tmp_path: Path
) -> None:
    told, is_told = list[Exception](), threading.Event()

    def on_lost(lost: Exception) -> None:
        told.append(lost)
        is_told.set()

    ranks = OtherRanks(processes, torch_threads=1, on_lost=on_lost)
    ranks.set_up(SetUp(str(base_model), SETTINGS, torch_threads=1))
    trainer = PolicyTrainer(
        load_base_model(str(base_model)), tokenizer, SETTINGS,
        output_dir=tmp_path / "run", source=lambda step: (), on_saved=lambda step, path, optimization: None,
    )  # fmt: skip
    ranks.wait_until_ready(trainer.policy)
    (child,) = own_children()
    child.suspend()  # In the middle of a step: it has its rows, and has not answered.
    threading.Timer(0.3, child.kill).start()
    known = StepFigures.before(ROWS)

    def step() -> None:
        with ranks.computing():
            ranks.hand_out(trainer.policy, ROWS, known)
            ranks.take_in(trainer.policy, known)

    with pytest.raises(RankLost, match="rank 1 of 2 was killed by SIGKILL; perhaps the host ran out of memory"):
        step()
    assert is_told.wait(60)
    assert str(told[0]) == "rank 1 of 2 was killed by SIGKILL; perhaps the host ran out of memory"
    ranks.close()
    assert not dist.is_initialized()
    assert own_children() == []


def in_parts(
    processes: RankProcesses, base_model: Path, tokenizer: PreTrainedTokenizerBase, folder: Path
) -> tuple[OtherRanks, PolicyTrainer]:
    """Ranks of which each has a part of the base model's layers."""
    settings = replace(SETTINGS, is_sharded=True, micro_batch_tokens=8192)
    ranks = OtherRanks(processes, torch_threads=1)
    ranks.set_up(SetUp(str(base_model), settings, torch_threads=1))
    trainer = PolicyTrainer(
        ranks.base_model(lambda: load_base_model(str(base_model))), tokenizer, settings, output_dir=folder / "run",
        source=lambda step: (), on_saved=lambda step, path, optimization: None, most=ranks.most,
    )  # fmt: skip
    ranks.wait_until_ready(trainer.policy)
    return ranks, trainer


@pytest.fixture
def sharded(
    base_model: Path, tokenizer: PreTrainedTokenizerBase, processes: RankProcesses, tmp_path: Path
) -> Iterator[tuple[OtherRanks, PolicyTrainer]]:
    """Two such ranks."""
    ranks, trainer = in_parts(processes, base_model, tokenizer, tmp_path)
    yield ranks, trainer
    ranks.close()


def compute(ranks: OtherRanks, trainer: PolicyTrainer, rows: list[TrainingRow]) -> None:
    known = StepFigures.before(rows)
    with ranks.computing():
        trainer.add_gradient(trainer.policy, ranks.hand_out(trainer.policy, rows, known), known)
        ranks.take_in(trainer.policy, trainer.figures)


def test_a_rank_that_dies_in_a_pass_of_all_ends_it(sharded: tuple[OtherRanks, PolicyTrainer]) -> None:
    (child,) = own_children()
    child.suspend()
    threading.Timer(0.5, child.kill).start()
    with pytest.raises(RankLost, match="rank 1 of 2 was killed by SIGKILL"):
        compute(*sharded, ROWS)


@pytest.mark.usefixtures("are_forked")
def test_of_three_ranks_the_one_that_died_in_a_pass_is_told_and_no_other_fails_the_run(
    base_model: Path, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    three = Devices(cpu_ranks=3)
    processes = RankProcesses(local_world(three, cores=3), three)
    try:
        ranks, trainer = in_parts(processes, base_model, tokenizer, tmp_path)
        killed = psutil.Process(processes._children[2].pid)  # pyright: ignore[reportPrivateUsage]
        killed.suspend()
        threading.Timer(0.5, killed.kill).start()
        with pytest.raises(RankLost, match="rank 2 of 3 was killed by SIGKILL"):
            compute(ranks, trainer, ROWS * 2)
        ranks.close()
    finally:
        processes.close()


def test_what_breaks_in_our_own_pass_is_no_lost_rank(
    sharded: tuple[OtherRanks, PolicyTrainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: PolicyTrainer, rows: object) -> object:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(PolicyTrainer, "_inputs", broken)
    with pytest.raises(BrokenPass, match="shapes do not match"):
        compute(*sharded, ROWS)


@pytest.mark.parametrize(
    ("said", "expected"),
    [("unhandled system error\nncclSystemError: System call failed", RunPaused), ("ncclRemoteError: gone", BrokenPass)],
)
def test_gpus_that_cannot_reach_each_other_pause_the_run(
    said: str,
    expected: type[Exception],
    sharded: tuple[OtherRanks, PolicyTrainer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(self: PolicyTrainer, rows: object) -> object:
        raise dist.DistBackendError(f"NCCL error in: NCCLUtils.cpp:77, {said}")

    monkeypatch.setattr(PolicyTrainer, "_inputs", broken)
    with pytest.raises(expected, match=r"NCCL error in: NCCLUtils.cpp:77, (unhandled system error. .*shm|nccl)"):
        compute(*sharded, ROWS)


def test_a_rank_that_runs_out_of_memory_in_a_pass_of_all_tells_why_before_it_ends(
    sharded: tuple[OtherRanks, PolicyTrainer],
) -> None:
    ranks, trainer = sharded
    (child,) = own_children()
    limit = child.memory_info().vms + (64 << 20)  # Room for libraries, and none for a pass of 4,000 tokens.
    child.rlimit(psutil.RLIMIT_AS, (limit, limit))  # pyright: ignore[reportAttributeAccessIssue]
    tokens = 4000
    long = TrainingRow((5,), (7,) * tokens, (True,) * tokens, (-1.0,) * tokens, 1.0)
    with pytest.raises(
        RunPaused, match="Rank 1 of 2: Memory ran out in an update that takes up to 8,192 tokens"
    ) as paused:
        compute(ranks, trainer, [long] * 4)
    assert paused.value.code == "sharded_out_of_memory"


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (None, 3),
        (OSError(errno.ENOSPC, "No space left on device"), EXIT_DISK_FULL),
        (OSError(errno.EIO, "Input/output error"), EXIT_RANK_LOST),
    ],
    ids=["told", "disk full", "not told"],
)
def test_a_run_whose_own_thread_waits_for_a_gpu_for_ever_tells_why_if_it_can_and_ends(
    sharded: tuple[OtherRanks, PolicyTrainer], monkeypatch: pytest.MonkeyPatch, problem: OSError | None, status: int
) -> None:
    ranks, _ = sharded
    told, left, has_left = list[str](), list[int](), threading.Event()

    def stuck(error: Exception) -> int:
        told.append(str(error))
        if problem is not None:
            raise problem
        return 3

    def leave(status: int) -> None:
        left.append(status)
        has_left.set()

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(other_ranks, "_LEAVE_S", 0.1)
    monkeypatch.setattr("os._exit", leave)
    ranks._on_stuck = stuck  # pyright: ignore[reportPrivateUsage]
    (child,) = own_children()
    child.kill()
    assert has_left.wait(60)
    assert told == ["rank 1 of 2 was killed by SIGKILL; perhaps the host ran out of memory"]
    assert left == [status]


def test_a_rank_that_cannot_have_its_part_of_the_base_model_tells_why(processes: RankProcesses) -> None:
    settings = replace(SETTINGS, is_sharded=True)
    ranks = OtherRanks(processes, torch_threads=1)
    with pytest.raises(RunPaused, match="Rank 1 of 2: torch finds no GPU on its host for rank 1 of 2, which") as paused:
        ranks.set_up(SetUp("/nowhere", settings, torch_threads=1, needs_gpu=True))
    assert paused.value.code == "devices_unfit"
    ranks.close()


def test_a_rank_whose_base_model_does_not_load_is_heard_before_ours_is_loaded(processes: RankProcesses) -> None:
    ranks = OtherRanks(processes, torch_threads=1)
    ranks.set_up(SetUp("/nowhere", replace(SETTINGS, is_sharded=True), torch_threads=1))

    def load() -> NoReturn:
        pytest.fail("loaded in vain")

    with pytest.raises(RunFailed, match=r"Rank 1 of 2: .*nowhere"):
        ranks.base_model(load)
    ranks.close()


def test_ranks_with_and_without_a_gpu_have_no_layers_in_common(
    processes: RankProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = OtherRanks(processes, torch_threads=1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(RunPaused, match="Rank 0 of 2 has a GPU and rank 1 has none") as paused:
        ranks.set_up(SetUp("/nowhere", replace(SETTINGS, is_sharded=True), torch_threads=1))
    assert paused.value.code == "devices_unfit"
    ranks.close()


def test_a_rank_that_dies_before_it_has_come_is_told_as_well(started: RankProcesses) -> None:
    (child,) = own_children()
    child.kill()
    with pytest.raises(RankLost, match="rank 1 of 2 was killed by SIGKILL"):
        OtherRanks(started, torch_threads=1)


def test_a_stop_is_heard_while_ranks_are_waited_for(started: RankProcesses) -> None:
    def check() -> None:
        raise RunAborted("the run was told to stop")

    with pytest.raises(RunAborted):
        OtherRanks(started, torch_threads=1, check=check)


def test_ranks_of_a_host_meet_where_no_other_user_of_it_comes(started: RankProcesses) -> None:
    ranks = OtherRanks(started, torch_threads=1)
    everyone = [psutil.Process(), *own_children()]
    assert not [rank for rank in everyone if "MASTER_PORT" in rank.environ()]
    heard_at = {at.laddr.ip for rank in everyone for at in rank.net_connections("tcp") if at.status == "LISTEN"}
    assert heard_at <= {"127.0.0.1", "::1"}, "gloo's"
    assert stat.S_IMODE(started.store.parent.stat().st_mode) == 0o700
    ranks.close()
    assert not started.store.parent.exists()


def test_ranks_heed_no_signal_of_the_process_group_and_end_with_rank_0(started: RankProcesses) -> None:
    ranks = OtherRanks(started, torch_threads=1)
    (child,) = own_children()
    child.send_signal(signal.SIGTERM)
    child.send_signal(signal.SIGINT)
    model = torch.nn.Linear(1, 1)
    ranks.set_up(SetUp("/nowhere", SETTINGS, torch_threads=1))
    with pytest.raises(Exception, match="nowhere"):
        ranks.wait_until_ready(model)
    started._children[1].stdin.close()  # pyright: ignore[reportPrivateUsage, reportOptionalMemberAccess]
    ended = started.ended(within_s=60)
    assert ended == "rank 1 of 2 exited with status 0", "as when rank 0 is killed: its end of the pipe closes"
    ranks.close()


def test_a_rank_that_breaks_by_itself_ends_with_status_1(started: RankProcesses) -> None:
    ranks = OtherRanks(started, torch_threads=1)
    with suppress(RankLost):  # It may break before or after all of this was sent.
        ranks.hand_out(torch.nn.Linear(1, 1), ROWS, StepFigures.before(ROWS))  # It was never set up.
    assert started.ended(within_s=60) == "rank 1 of 2 exited with status 1"
    ranks.close()
