"""A frozen base model that no rank has whole, for one that fits no single GPU: each rank keeps a part of every layer,
and has the others' for as long as it computes the layer (FSDP2, arXiv 2304.11277).

Only layers are in parts. Embedding, head and the adapter, which is trained, are whole on every rank: so each rank's
gradient is its own rows', whatever their shapes, and is added up as ever. But a pass of one rank is a pass of all: they
make the same number of them, in one order, and none can make one of its own again.
"""

import torch
from torch import distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import output_capturing

from rft.core.errors import RunPaused
from rft.trainer.ranks.world import UNFIT

OUT_OF_MEMORY = "sharded_out_of_memory"
_GONE = "ncclRemoteError"


def shard_layers(model: PreTrainedModel, group: dist.ProcessGroup) -> PreTrainedModel:
    """The same model, of whose layers this process keeps its part: on its GPU, where it has one.

    Called before the adapter is laid around them, with what every rank of the group has loaded alike. Raises RunPaused
    where the architecture does not tell what its layers are.
    """
    decoder = model.get_decoder()
    layers = [module for module in decoder.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise RunPaused(
            UNFIT,
            f"The layers of a {type(model).__name__} cannot be kept in parts: nothing tells which modules they are."
            " Set RFT_SHARD_BASE to `never`, restart the workers and resume the job.",
        )
    mesh = DeviceMesh.from_group(group, "cuda" if torch.cuda.is_available() else "cpu")
    for layer in layers:
        layer.requires_grad_(False)
        fully_shard(layer, mesh=mesh, reshard_after_forward=True)
    whole = {parameter for parameter in decoder.parameters() if not isinstance(parameter, DTensor)}
    fully_shard(decoder, mesh=mesh, ignored_params=whole)
    # It is of another class now, and transformers looks up by class what can be had of a pass, such as router logits.
    output_capturing._CAN_RECORD_REGISTRY[str(decoder.__class__)] = decoder.can_record_outputs  # pyright: ignore[reportPrivateUsage]
    return model


def unreachable(error: RuntimeError) -> RunPaused | None:
    """What a run is paused with whose GPUs cannot exchange their parts; None where it is another fault."""
    if not isinstance(error, dist.DistBackendError) or _GONE in str(error):  # The latter: another rank has gone.
        return None
    first_line = str(error).partition("\n")[0]
    return RunPaused(
        UNFIT,
        f"The ranks' GPUs cannot exchange the parts of the base model: {first_line}. Ranks in a container need its"
        " shared memory (`--shm-size=8g`, or `--ipc=host`); with NCCL_DEBUG=INFO the job's trainer.log tells more. Then"
        " restart the workers and resume the job.",
    )


def out_of_memory(tokens: int) -> RunPaused:
    """What a run is paused with whose ranks cannot try again with fewer `tokens` at once."""
    return RunPaused(
        OUT_OF_MEMORY,
        f"Memory ran out in an update that takes up to {tokens:,} tokens at a time. Ranks whose base model is in parts"
        f" cannot halve that by themselves: set RFT_MICRO_BATCH_TOKENS to {max(1, tokens // 2)} or less, restart the"
        " workers and resume the job.",
    )
