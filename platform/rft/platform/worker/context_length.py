"""How much a base model can read, as its own configuration tells: this side knows no tensor library to ask."""

import json
from pathlib import Path
from typing import Any, cast

from rft.core.chat_spec import LONGEST_CONTEXT_TOKENS


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


def _text_config(base_model_path: str) -> dict[str, Any] | None:
    try:
        config = json.loads((Path(base_model_path).expanduser() / "config.json").read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(config, dict):
        return None
    text = config.get("text_config")
    return cast(dict[str, Any], text if isinstance(text, dict) else config)
