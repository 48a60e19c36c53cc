"""The base model, as it is loaded for training and for sampling."""

import torch
from transformers import PretrainedConfig, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from rft.core.chat_spec import LONGEST_CONTEXT_TOKENS
from rft.engines.architecture import attention_of, auto_class_of, read_config
from rft.engines.tokenizer import UnusableModel


def load_base_model(base_model: str, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """On the CPU. In single precision sampler and trainer agree to the sixth digit. Raises UnusableModel."""
    disable_progress_bar()
    try:
        config = read_config(base_model)
        auto, attention = auto_class_of(config), attention_of(config)
        return auto.from_pretrained(base_model, dtype=dtype, attn_implementation=attention)
    except (OSError, ValueError, UnusableModel) as error:
        raise UnusableModel(f"the base model {base_model} cannot be loaded: {error}") from error


def max_context_tokens(config: PretrainedConfig, wanted: int | None = None) -> int:
    """Prompt plus completion at most. `wanted`: the operator's own limit, which may lie above ours."""
    possible = getattr(config.get_text_config(), "max_position_embeddings", None)
    limit = wanted or LONGEST_CONTEXT_TOKENS
    return min(possible or limit, limit)


def without_router_logits(model: PreTrainedModel) -> PreTrainedModel:
    """The same model: a mixture of experts gives its router's logits only where they are asked for.

    One whose configuration orders them always also weighs up their balance in each pass, which sampling has no use for
    and which no paged batch survives.
    """
    config = model.config.get_text_config()
    if getattr(config, "output_router_logits", False):
        config.output_router_logits = False
    return model
