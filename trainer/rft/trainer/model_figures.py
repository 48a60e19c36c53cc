"""What a base model takes of this machine, from its configuration alone: it is built without weights."""

import copy
from math import prod

import torch
from peft import get_peft_model
from transformers import PretrainedConfig, PreTrainedModel

from rft.core.hyperparameters import LoraSpec
from rft.core.model_check import CacheFigures, ModelFigures
from rft.engines.architecture import auto_class_of, first_sentence, with_backbone
from rft.engines.base_model import max_context_tokens as context_of
from rft.engines.base_model import switch_noise_off
from rft.engines.kv_slots import KvSlots
from rft.engines.paged_engine import REQUESTS_PER_PASS, cache_tokens
from rft.engines.slot_fit import most_tokens_of, slots_of, supports
from rft.engines.tokenizer import UnusableModel
from rft.trainer.activation_probe import PROBE, kept_bytes_per_token
from rft.trainer.policy import lora_config
from rft.trainer.token_budget import free_bytes, tokens_within


def figures_of(
    config: PretrainedConfig, *, max_context_tokens: int | None, is_held: bool, lora: LoraSpec | None = None
) -> ModelFigures:
    """With this adapter, or the usual one. `is_held`: by the engine `transformers`.

    Raises UnusableModel where the configuration makes no model, RunFailed where it has no layer that `lora` names.
    """
    model, lora = _without_weights(config), lora or LoraSpec()
    parameters = sum(weight.numel() for weight in model.parameters())
    policy = get_peft_model(model, lora_config(model, lora), low_cpu_mem_usage=True)
    adapted = {name.partition(".base_layer.") for name, _ in policy.named_parameters() if ".base_layer." in name}
    context, per_token = context_of(config, max_context_tokens), kept_bytes_per_token(policy, model)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return ModelFigures(
        max_context_tokens=context,
        parameters=parameters,
        adapter_rank=lora.rank,
        adapter_layers=tuple(sorted({layer.rpartition(".")[2] for layer, _, _ in adapted})),
        adapter_parameters=sum(weight.numel() for weight in policy.parameters() if weight.requires_grad),
        adapted_parameters=sum(weight.numel() for name, weight in policy.named_parameters() if "base_layer" in name),
        activation_bytes_per_token=per_token,
        micro_batch_tokens=None if per_token is None else tokens_within(free_bytes(device), per_token, device),
        cache=_cache(model, context) if is_held else None,
        has_gpu=device.type == "cuda",
    )


def slot_parameters(config: PretrainedConfig) -> int:
    """Numbers of an adapter of rank 1 where a vLLM server makes room for it: at every layer of the text model, each
    expert, embedding and head included, whichever layers are trained. Raises as `figures_of`."""
    model = _without_weights(config)
    parts = [part for part in (model.get_decoder(), model.get_output_embeddings()) if part is not None]
    hidden, found = model.config.get_text_config().hidden_size, 0
    for name, weight in (named for part in parts for named in part.named_parameters()):
        if weight.dim() > 1:
            second = hidden if name.endswith("gate_up_proj") else 0  # Two layers to vLLM, each with its own way in.
            found += prod(weight.shape[:-2]) * (sum(weight.shape[-2:]) + second)
    return found


def _cache(model: PreTrainedModel, max_context_tokens: int) -> CacheFigures:
    text = model.config.get_text_config()
    per_token = KvSlots.bytes_per_token(text)
    if not supports(model):
        tokens = cache_tokens(max_context_tokens)
        return CacheFigures(bytes_per_token=per_token, tokens=tokens, conversations=REQUESTS_PER_PASS)
    slots, tokens = slots_of(text, max_context_tokens), most_tokens_of(text, max_context_tokens)
    return CacheFigures(bytes_per_token=per_token, tokens=tokens, conversations=slots)


def _without_weights(config: PretrainedConfig) -> PreTrainedModel:
    try:
        own = copy.deepcopy(config)
        switch_noise_off(own)
        with torch.device("meta"):
            model = auto_class_of(own).from_config(
                own, dtype=torch.float32, attn_implementation=PROBE, experts_implementation=PROBE
            )
        return with_backbone(model)
    except MemoryError:
        raise
    except Exception as error:
        raise UnusableModel(f"its config.json makes no model: {first_sentence(error)}") from error
