"""Whether ranks keep the base model in parts."""

import torch

from rft.core.events import Notice
from rft.core.gpu_share import GpuMemory
from rft.core.spec import RunSpec, ShardBase
from rft.trainer.gpu_share import least_needs
from rft.trainer.ranks.world import World


def shards_base(spec: RunSpec, world: World, gpu: GpuMemory | None, base_dtype: torch.dtype) -> bool:
    """As set; by itself where an update of the whole base model does not fit the rank's `gpu`."""
    if world.size == 1 or spec.shard_base == ShardBase.NEVER:
        return False
    if spec.shard_base == ShardBase.ALWAYS:
        return True
    return gpu is not None and least_needs(spec, base_dtype).update > gpu.free


def sharded_notice(ranks: int) -> Notice:
    """What the customer is told."""
    return Notice(
        level="info",
        code="base_sharded",
        message=f"The base model is spread over {ranks} training processes, each with a part of every layer.",
    )
