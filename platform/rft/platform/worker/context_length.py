"""How much a base model can read, as its own configuration tells: this side knows no tensor library to ask."""

import json
from pathlib import Path

from rft.core.chat_spec import LONGEST_CONTEXT_TOKENS


def context_tokens(base_model_path: str, wanted: int | None = None) -> int | None:
    """Tokens of prompt and completion at most; None when the model's configuration is not on this machine.

    `wanted`: the operator's own limit.
    """
    try:
        config = json.loads((Path(base_model_path).expanduser() / "config.json").read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(config, dict):
        return None
    text = config.get("text_config")
    possible = (text if isinstance(text, dict) else config).get("max_position_embeddings")
    limit = wanted or LONGEST_CONTEXT_TOKENS
    return min(possible, limit) if isinstance(possible, int) and possible > 0 else limit
