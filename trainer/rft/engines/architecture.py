"""What a base model's architecture allows: whether it can be trained at all, its attention, and the CPU engine."""

from typing import Any, Literal, cast

from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    PretrainedConfig,
    PreTrainedModel,
)

from rft.engines.tokenizer import UnusableModel

Attention = Literal["sdpa", "eager"]
_HELD_LAYERS = frozenset({"full_attention", "sliding_attention"})
_TEXT_AT = {
    "llama4": "language_model.model.",
    "qwen3_5": "model.language_model.",
    "qwen3_5_moe": "model.language_model.",
    "qwen4_exp": "model.language_model.",
}
"""Models that also see, of which transformers takes the language model alone where a causal one is asked for."""


def read_config(base_model: str) -> PretrainedConfig:
    """Raises UnusableModel, whatever the configuration's own class has to say against it."""
    try:
        return AutoConfig.from_pretrained(base_model)
    except MemoryError:
        raise
    except Exception as error:
        said = first_sentence(error).replace(base_model, "the model's folder")
        raise UnusableModel(f"its config.json cannot be read: {said}") from error


def auto_class_of(config: PretrainedConfig) -> Any:
    """What loads the model; one that also sees is taken as it is, for its text alone.

    Raises UnusableModel where it is no language model that transformers knows.
    """
    for auto in (AutoModelForCausalLM, AutoModelForImageTextToText):
        if cast(Any, auto)._model_mapping.get(type(config), None) is not None:
            return auto
    raise UnusableModel(f"models of the type {config.model_type} are not causal language models that can be loaded")


def model_class(config: PretrainedConfig) -> type[PreTrainedModel]:
    """What it becomes. Raises UnusableModel."""
    found = auto_class_of(config)._model_mapping.get(type(config), None)
    return cast(type[PreTrainedModel], found[0] if isinstance(found, tuple | list) else found)


def with_backbone(model: PreTrainedModel) -> PreTrainedModel:
    """The same model: its `base_model` is what comes before the head, for transformers, TRL and us.

    Llama 4's language model has it under another name than its class says.
    """
    if model.base_model is model and hasattr(model, "model"):
        model.base_model_prefix = "model"
    return model


def text_at(config: PretrainedConfig) -> str | None:
    """What stands, in the published weights, in place of the `model.` before all layers that are trained.

    None where both have the same names. Servers load the published weights, and know layers by those names.
    """
    return _TEXT_AT.get(config.model_type)


def attention_of(config: PretrainedConfig) -> Attention:
    """What computes the model's attention as it was published: torch's own, unless it has sinks or caps.

    Raises UnusableModel.
    """
    has_sdpa = model_class(config)._supports_sdpa  # pyright: ignore[reportPrivateUsage]
    has_caps = getattr(config.get_text_config(), "attn_logit_softcapping", None) is not None
    return "sdpa" if has_sdpa and not has_caps else "eager"


def engine_problem(config: PretrainedConfig) -> str | None:
    """Why the engine `transformers` cannot sample from the model; None where it can. Raises UnusableModel."""
    kind, text = model_class(config), config.get_text_config()
    layers = set(getattr(text, "layer_types", None) or ()) - _HELD_LAYERS
    if layers:
        return f"it has layers of the kind {', '.join(sorted(layers))}, of which the engine keeps no state"
    if getattr(kind, "_is_stateful", False) or not kind._supports_attention_backend:  # pyright: ignore[reportPrivateUsage]
        return "its layers are not attention in the usual form"
    if getattr(text, "kv_lora_rank", None) is not None:
        return "its keys and values are compressed (multi-head latent attention)"
    if getattr(text, "attn_logit_softcapping", None) is not None:
        return "its attention caps its logits"
    if getattr(text, "num_kv_shared_layers", None):
        return "some of its layers share their keys and values"
    return None


def first_sentence(error: BaseException) -> str:
    """What an error of foreign code says, in one line."""
    text = " ".join(str(error).split())
    return text.partition(". ")[0][:300] or type(error).__name__
