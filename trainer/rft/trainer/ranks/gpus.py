"""Whether a rank has the GPU that was named for it."""

import torch

from rft.core.errors import RunPaused
from rft.trainer.ranks.world import UNFIT, World


def require_gpu(world: World, *, is_needed: bool) -> None:
    """Raises RunPaused where one was named and torch finds none."""
    if is_needed and not torch.cuda.is_available():
        raise RunPaused(
            UNFIT,
            f"RFT_DEVICES names a GPU for rank {world.rank} of {world.size} that torch does not find on this host. Name"
            " GPUs as `nvidia-smi` numbers them, restart the workers and resume the job.",
        )
