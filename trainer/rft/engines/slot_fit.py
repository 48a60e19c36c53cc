"""Which models the slot engine can sample from, and for how many conversations it has room."""

from transformers import PretrainedConfig, PreTrainedModel

from rft.engines.kv_slots import KvSlots

_MEMORY_BYTES = 4 << 30
"""For keys and values of all conversations together."""
_MAX_SLOTS = 256
_SHORT_TOKENS = 128
"""There are no more slots than conversations of so many tokens fit."""
LEAST_CONVERSATIONS = 4
"""So many go on at once whatever memory they take."""


def supports(model: PreTrainedModel) -> bool:
    """Whether every layer attends to everything before it, through the attention interface."""
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None) or ["full_attention"]
    has_window = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    return bool(model._supports_attention_backend and set(kinds) == {"full_attention"} and not has_window)  # pyright: ignore[reportPrivateUsage]


def budget_of(config: PretrainedConfig) -> int:
    """Tokens that all conversations may have together, where they are more than `LEAST_CONVERSATIONS`."""
    return _MEMORY_BYTES // KvSlots.bytes_per_token(config)


def slots_of(config: PretrainedConfig, capacity: int) -> int:
    """Conversations at once at most. Long ones are fewer: by `budget_of`."""
    return max(LEAST_CONVERSATIONS, min(_MAX_SLOTS, budget_of(config) // min(capacity, _SHORT_TOKENS)))


def most_tokens_of(config: PretrainedConfig, capacity: int) -> int:
    """Tokens that conversations of this length at most ever have together."""
    return min(slots_of(config, capacity) * capacity, max(budget_of(config), LEAST_CONVERSATIONS * capacity))
