"""The base model, as it is loaded for training and for sampling."""

from typing import cast

import torch
from transformers import PretrainedConfig, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from rft.core.chat_spec import LONGEST_CONTEXT_TOKENS
from rft.engines.architecture import attention_of, auto_class_of, read_config, with_backbone
from rft.engines.shared_keys import copy_keys_where_needed
from rft.engines.tokenizer import UnusableModel

_ALSO_WHEN_SAMPLING = frozenset({("phimoe", "router_jitter_noise")})
"""What is called noise, and is part of what the model computes."""
_KEPT_QUANTIZED = frozenset({"fp8", "mxfp4"})
"""Formats of weights that transformers computes with where the GPU can, as gpt-oss and DeepSeek V3 are published."""


def load_base_model(base_model: str, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """On the CPU. In single precision sampler and trainer agree to the sixth digit. Raises UnusableModel."""
    disable_progress_bar()
    copy_keys_where_needed()
    try:
        config = read_config(base_model)
        switch_noise_off(config)
        keep_no_quantized_weights(config)
        auto, attention = auto_class_of(config), attention_of(config)
        return with_backbone(
            auto.from_pretrained(base_model, config=config, dtype=dtype, attn_implementation=attention)
        )
    except (OSError, ValueError, UnusableModel) as error:
        raise UnusableModel(f"the base model {base_model} cannot be loaded: {error}") from error


def switch_noise_off(config: PretrainedConfig) -> None:
    """Updates compute what was sampled: dropout and jitter would give its tokens other log-probabilities."""
    for name, value in list(vars(config).items()):
        if isinstance(value, PretrainedConfig):
            switch_noise_off(value)
        elif type(value) in (int, float) and _is_noise(config.model_type, name):
            setattr(config, name, type(value)(0))


def keep_no_quantized_weights(config: PretrainedConfig) -> None:
    """An adapter is trained on weights in `dtype`. A CPU has no kernels for others, so there they are that by
    themselves; on a GPU that has some, published weights would stay as they are."""
    told = cast(dict[str, object] | None, getattr(config, "quantization_config", None))
    if isinstance(told, dict) and told.get("quant_method") in _KEPT_QUANTIZED:
        told["dequantize"] = True


def _is_noise(model_type: str, field: str) -> bool:
    return ("drop" in field or "jitter" in field) and (model_type, field) not in _ALSO_WHEN_SAMPLING


def max_context_tokens(config: PretrainedConfig, wanted: int | None = None) -> int:
    """Prompt plus completion at most. `wanted`: the operator's own limit, which may lie above ours."""
    text, limit = config.get_text_config(), wanted or LONGEST_CONTEXT_TOKENS
    possible = getattr(text, "max_position_embeddings", None)
    rope = getattr(text, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":
        # Beyond, a pass has other frequencies for all of its tokens, those of shorter rollouts in the batch included.
        limit = min(limit, rope["original_max_position_embeddings"])
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
