"""Random models of the families that users bring, as small as their architectures allow."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from rft.engines.architecture import auto_class_of, with_backbone

_SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}
_EXPERTS: dict[str, Any] = {"moe_intermediate_size": 16, "num_experts": 4, "num_experts_per_tok": 2}
_VISION: dict[str, Any] = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "qwen3": {"head_dim": 16},
    "llama": {},
    "mistral": {"head_dim": 8, "sliding_window": None},
    "gemma3_text": {
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "qwen3_moe": {**_EXPERTS, "head_dim": 8, "decoder_sparse_step": 1},
    "gpt_oss": {
        "head_dim": 8,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
    },
    "gemma2": {
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention"],
        "attn_logit_softcapping": 0.05,
    },
    "deepseek_v3": {
        **_EXPERTS,
        "num_key_value_heads": 4,
        "n_routed_experts": 4,
        "n_group": 1,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 8,
    },
    "qwen3_5_text": {
        "head_dim": 8,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "layer_types": ["linear_attention", "full_attention"],
    },
    "seed_oss": {"head_dim": 8},
    "olmo3": {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]},
    "llama4_text": {
        "head_dim": 8,
        "num_local_experts": 4,
        "num_experts_per_tok": 1,
        "moe_layers": [1],
        "intermediate_size_mlp": 48,
        "attention_chunk_size": 16,
        "layer_types": ["chunked_attention", "full_attention"],
        "no_rope_layers": [1, 0],
    },
    "lfm2": {"layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False},
}
FAMILIES["mistral3"] = {
    "text_config": {**_SHAPE, **FAMILIES["mistral"], "model_type": "mistral"},
    "vision_config": {**_VISION, "model_type": "pixtral", "head_dim": 8},
}
FAMILIES["gemma3"] = {"text_config": {**_SHAPE, **FAMILIES["gemma3_text"]}, "vision_config": _VISION}
FAMILIES["qwen3_5"] = {
    "text_config": {**_SHAPE, **FAMILIES["qwen3_5_text"]},
    "vision_config": {
        "depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 32, "patch_size": 14,
    },
}  # fmt: skip
"""What each adds to the common shape, by `model_type`. Gemma 3 from 4B on, Mistral Small 3.1 and Qwen3.5 also see."""


def tiny(family: str, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """The same random model at each call; its head is wide enough that answers differ."""
    torch.manual_seed(0)
    config = tiny_config(family, tokenizer)
    model = with_backbone(auto_class_of(config).from_config(config))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.15 if "head" in name else 0.1)
    return model


def tiny_config(family: str, tokenizer: PreTrainedTokenizerBase) -> PretrainedConfig:
    """Of that model, and of whatever it sees with."""
    special = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    own = {"vocab_size": len(tokenizer), **special}
    shape = FAMILIES[family]
    if "text_config" in shape:
        return AutoConfig.for_model(family, **{**shape, "text_config": {**shape["text_config"], **own}}, **special)
    return AutoConfig.for_model(family, **{**_SHAPE, **shape, **own})


def save_tiny(family: str, tokenizer: PreTrainedTokenizerBase, folder: Path) -> Path:
    """A base model's folder."""
    tiny(family, tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
