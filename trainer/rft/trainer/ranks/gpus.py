"""Whether a rank has the GPU that it is to train on."""

import torch

from rft.core.errors import RunPaused
from rft.trainer.ranks.world import UNFIT, World


def require_gpu(world: World, *, is_needed: bool) -> None:
    """Raises RunPaused where torch finds none though one is needed."""
    if is_needed and not torch.cuda.is_available():
        raise RunPaused(
            UNFIT,
            f"torch finds no GPU on its host for rank {world.rank} of {world.size}, which is to train on one. In"
            " RFT_DEVICES, name GPUs as `nvidia-smi` numbers them; a launcher (RFT_TRAINER_COMMAND) starts no more"
            " ranks on a host than it has GPUs, or all on hosts without. Then restart the workers and resume the job.",
        )
