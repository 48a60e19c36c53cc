"""As many layers keep their activations as there is memory for, and the gradient is the same."""

import pytest
import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle
from transformers import LlamaConfig, LlamaForCausalLM

from rft.trainer.policy import set_checkpointing

LAYERS = 6


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50, hidden_size=16, intermediate_size=24, num_hidden_layers=LAYERS, num_attention_heads=2
    )
    return LlamaForCausalLM(config).train()


def passes(model: LlamaForCausalLM) -> tuple[list[int], Tensor]:
    """How often each layer was computed, forth and back, and a gradient at the beginning."""
    computed = [0] * LAYERS
    hooks: list[RemovableHandle] = []
    for place in range(LAYERS):

        def count(*_: object, place: int = place) -> None:
            computed[place] += 1

        norm = model.get_submodule(f"model.layers.{place}.input_layernorm")
        hooks.append(norm.register_forward_pre_hook(count))
    model.zero_grad()
    model(input_ids=torch.arange(40)[None]).logits.pow(2).sum().backward()
    for hook in hooks:
        hook.remove()
    gradient = model.get_parameter("model.layers.0.self_attn.q_proj.weight").grad
    assert gradient is not None
    return computed, gradient.clone()


@pytest.mark.parametrize(
    ("share", "kept"), [(5.0, LAYERS), (1.0, LAYERS), (0.99, 4), (0.5, 2), (0.34, 1), (0.33, 0), (0.01, 0)]
)
def test_the_last_layers_are_kept_and_the_rest_is_computed_again(
    model: LlamaForCausalLM, share: float, kept: int
) -> None:
    set_checkpointing(model, share=1.0)
    _, plain = passes(model)
    assert set_checkpointing(model, share=share) == (kept if share < 1 else 0)
    computed, gradient = passes(model)
    assert computed == [2] * (LAYERS - kept) + [1] * kept
    assert torch.equal(gradient, plain)
