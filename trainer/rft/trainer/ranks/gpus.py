"""Whether a rank has the GPU that it is to train on, and can compute on it.

`python -m rft.trainer.ranks.gpus`: why torch computes on no GPU here, in one line; nothing where it does.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from rft.core.devices import VISIBLE, Devices
from rft.core.errors import RunPaused
from rft.core.events import Notice
from rft.trainer.ranks.world import UNFIT, World

_DEVICES = Path("/dev")
_OTHER_BUILD = "Update the driver, or install a build of torch for it and the GPU (deploy/README.md)"
_FULL = "`nvidia-smi` tells which processes fill it; end those that need not be there"


def check_gpu(world: World, devices: Devices | None, tell: Callable[[Notice], None]) -> None:
    """Of rank 0: tell the customer where it trains on a CPU although there is a GPU. Raises as `require_gpu`."""
    require_gpu(world, is_needed=devices is not None and bool(devices.train))
    if devices is None and (notice := unused_gpu_notice(_DEVICES)) is not None:
        tell(notice)


def require_gpu(world: World, *, is_needed: bool) -> None:
    """Raises RunPaused where torch finds none though one is needed, or cannot compute on the one that it finds."""
    if torch.cuda.is_available():
        if (broken := _problem_of_first_pass()) is not None:
            raise RunPaused(
                UNFIT,
                f"torch {torch.__version__} cannot compute on the GPU of rank {world.rank} of {world.size}"
                f" ({torch.cuda.get_device_name()}): {broken}."
                f" {_FULL if 'out of memory' in broken else _OTHER_BUILD}. Then resume the job.",
            )
    elif is_needed:
        raise RunPaused(
            UNFIT,
            f"torch finds no GPU on its host for rank {world.rank} of {world.size}, which is to train on one"
            f" ({_why_none()}). In RFT_DEVICES, name GPUs as `nvidia-smi` numbers them; a launcher"
            " (RFT_TRAINER_COMMAND) starts no more ranks on a host than it has GPUs, or all on hosts without. Then"
            " restart the workers and resume the job.",
        )


def unused_gpu_notice(devices: Path) -> Notice | None:
    """None where torch has a GPU, there is none in `devices`, or whoever started us hid them."""
    gpus, visible = len(list(devices.glob("nvidia[0-9]*"))), os.environ.get(VISIBLE, "0")
    if torch.cuda.is_available() or not gpus or not visible or visible.startswith("-"):
        return None
    return Notice(
        level="warn",
        code="gpu_unused",
        message=f"Updates are computed on the CPU, which takes many times as long, although this host has {gpus} NVIDIA"
        f" GPU{'s' * (gpus > 1)}: torch {torch.__version__} cannot use {'them' if gpus > 1 else 'it'} ({_why_none()})."
        f" {_OTHER_BUILD}.",
    )


def problem() -> str | None:
    """Why torch computes on no GPU here; None where it does."""
    return _problem_of_first_pass() if torch.cuda.is_available() else _why_none()


def _why_none() -> str:
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:  # The latter of a build for CPUs alone.
        return _first_sentence(error)
    return "it sees none"


def _problem_of_first_pass() -> str | None:
    """A build without kernels for the GPU finds it all the same."""
    try:
        torch.ones(1, device="cuda").add_(1).cpu()
    except RuntimeError as error:
        return _first_sentence(error)
    return None


def _first_sentence(error: Exception) -> str:
    return str(error).partition("\n")[0].partition(". ")[0].removesuffix(".")


if __name__ == "__main__":
    sys.stdout.write(problem() or "")
