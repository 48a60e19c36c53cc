"""Which models the slot engine can sample from, and for how many conversations it has room."""

from transformers import PreTrainedModel

from rft.engines.kv_slots import KvSlots

_MEMORY_BYTES = 4 << 30
_MAX_SLOTS = 256


def supports(model: PreTrainedModel) -> bool:
    """Whether every layer attends to everything before it, through the attention interface."""
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None) or ["full_attention"]
    has_window = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    return bool(model._supports_attention_backend and set(kinds) == {"full_attention"} and not has_window)  # pyright: ignore[reportPrivateUsage]


def slots_of(config: object, capacity: int) -> int:
    """Conversations that the engine has room for, all of them at full length."""
    memory = KvSlots.bytes_per_token(config) * capacity  # pyright: ignore[reportArgumentType]
    return max(4, min(_MAX_SLOTS, _MEMORY_BYTES // memory))
