"""A tiny base model on disk, and a second rank as a process of its own."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from rft.core.devices import Devices
from rft.trainer.ranks.other_ranks import OtherRanks
from rft.trainer.ranks.processes import RankProcesses
from rft.trainer.ranks.world import local_world
from tests.shared.by_hand import tiny_model
from tests.shared.forked_ranks import start_forked
from tests.shared.tiny_base import tokenizer

__all__ = ("tokenizer",)

torch.set_num_threads(1)
TWO = Devices(cpu_ranks=2)


@pytest.fixture(scope="session")
def base_model(tmp_path_factory: pytest.TempPathFactory, tokenizer: PreTrainedTokenizerBase) -> Path:
    path = tmp_path_factory.mktemp("base")
    tiny_model(tokenizer).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture
def started() -> Iterator[RankProcesses]:
    """The other process as rank 0 starts it: it has yet to import torch."""
    processes = RankProcesses(local_world(TWO, cores=2), TWO)
    yield processes
    processes.close()


@pytest.fixture
def are_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks have imported torch when they begin."""
    monkeypatch.setattr("rft.trainer.ranks.processes._start", start_forked)


@pytest.fixture
def processes(are_forked: None) -> Iterator[RankProcesses]:
    """The other process, forked."""
    processes = RankProcesses(local_world(TWO, cores=2), TWO)
    yield processes
    processes.close()


@pytest.fixture(scope="module")
def ranks() -> Iterator[OtherRanks]:
    """Rank 1, for all tests of a file: it takes seconds to import torch, and can be set up anew."""
    processes = RankProcesses(local_world(TWO, cores=2), TWO)
    try:
        ranks = OtherRanks(processes, torch_threads=1)
        yield ranks
        ranks.close()
    finally:
        processes.close()
