"""What a base model's own configuration tells of its context and its layers: this side knows no tensor library."""

import json
from pathlib import Path
from typing import Any, cast

from rft.core.chat_spec import LONGEST_CONTEXT_TOKENS
from rft.core.spec import Engine


def context_tokens(base_model_path: str, wanted: int | None = None) -> int | None:
    """Tokens of prompt and completion at most; None when the model's configuration is not on this machine.

    `wanted`: the operator's own limit.
    """
    text = _text_config(base_model_path)
    if text is None:
        return None
    possible, limit = text.get("max_position_embeddings"), wanted or LONGEST_CONTEXT_TOKENS
    limit = min(limit, longrope_tokens(base_model_path) or limit)
    return min(possible, limit) if isinstance(possible, int) and possible > 0 else limit


def longrope_tokens(base_model_path: str) -> int | None:
    """What the model reads at most because longer texts in a batch change what it computes of all others (LongRoPE)."""
    text = _text_config(base_model_path) or {}
    for rope in (text.get("rope_parameters"), text.get("rope_scaling")):
        if isinstance(rope, dict) and "longrope" in (rope.get("rope_type"), rope.get("type")):
            original = text.get("original_max_position_embeddings", rope.get("original_max_position_embeddings"))
            return original if isinstance(original, int) and original > 0 else None
    return None


def has_one_version(base_model_path: str, engine: str) -> bool:
    """Whether the engine `transformers` samples from it in pages, which hold one policy version at a time: not every
    layer attends to all that is before it. False where its configuration is not on this machine."""
    text = _text_config(base_model_path) or {}
    kinds = text.get("layer_types") or ["full_attention"]
    has_window = bool(text.get("sliding_window")) and text.get("use_sliding_window") is not False
    return engine == Engine.TRANSFORMERS and (has_window or any(kind != "full_attention" for kind in kinds))


def _text_config(base_model_path: str) -> dict[str, Any] | None:
    try:
        config = json.loads((Path(base_model_path).expanduser() / "config.json").read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(config, dict):
        return None
    text = config.get("text_config")
    return cast(dict[str, Any], text if isinstance(text, dict) else config)
