"""The starter's architecture and its initial weights, which can already copy.

With ordinary initial weights nothing is copied after minutes of training. Here layer 0 writes the previous three tokens
into three subspaces of the residual stream and layer 1 matches them (induction heads); the warm-up only has to polish.
The architecture is Llama with attention biases: biases make purely positional heads possible, and unlike with Qwen2
every loader keeps the tokenizer as it was saved.
"""

from typing import cast

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.models.llama.modeling_llama import LlamaAttention

_HIDDEN, _HEADS, _LAYERS = 128, 4, 3
_HEAD = _HIDDEN // _HEADS
_THETA = 1e6
_LOOKBACKS = 3
_EMBEDDING_STD = 0.1
_WRITE = 0.4
"""Scale of what the copying heads write."""
_MATCH = 1.5
"""Scale of the matching query and key weights of the induction heads."""
_POSITION = 5.0
"""Amplitude of the positional biases, on the four fastest rotary pairs: about 0.86 of the attention hits its target."""


def build_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> LlamaForCausalLM:
    """A float32 model of about 0.6 M parameters with induction-ready weights; the same for the same seed."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=_HIDDEN,
            intermediate_size=2 * _HIDDEN,
            num_hidden_layers=_LAYERS,
            num_attention_heads=_HEADS,
            num_key_value_heads=_HEADS,
            attention_bias=True,
            tie_word_embeddings=True,
            max_position_embeddings=tokenizer.model_max_length,
            rope_parameters={"rope_type": "default", "rope_theta": _THETA},
            bos_token_id=None,
            eos_token_id=cast(int, tokenizer.eos_token_id),
            pad_token_id=cast(int, tokenizer.pad_token_id),
            dtype=torch.float32,
        )
    )
    with torch.no_grad():
        _prepare_induction(model, cast(int, tokenizer.pad_token_id))
    return model


def _prepare_induction(model: LlamaForCausalLM, pad_token_id: int) -> None:
    embedding = cast(Tensor, model.get_input_embeddings().weight)
    embedding.normal_(0, _EMBEDDING_STD)
    embedding[pad_token_id] = 0
    basis = torch.linalg.qr(torch.randn(_HIDDEN, _HIDDEN)).Q
    past = [basis[_HEAD * k : _HEAD * (k + 1)] for k in range(_LOOKBACKS)]
    identity = torch.linalg.qr(torch.randn(_HIDDEN, _HEAD)).Q.T
    first, second = (cast(LlamaAttention, model.model.layers[layer].self_attn) for layer in (0, 1))
    for k in range(_LOOKBACKS):
        _look_back(first, k, identity, past[k])
    for head, (query, key) in enumerate([(past[0], past[1]), (identity, past[0]), (past[1], past[2])]):
        rows = slice(_HEAD * head, _HEAD * (head + 1))
        second.q_proj.weight[rows] = _MATCH * query
        second.k_proj.weight[rows] = _MATCH * key
    value = _WRITE * torch.linalg.qr(torch.randn(_HIDDEN, _HIDDEN)).Q
    second.v_proj.weight.copy_(value)
    second.o_proj.weight.copy_(value.T)


def _look_back(attention: LlamaAttention, k: int, identity: Tensor, past: Tensor) -> None:
    """Head k attends to the token k+1 places back and writes its identity into the subspace `past`."""
    rows = slice(_HEAD * k, _HEAD * (k + 1))
    pairs = torch.arange(_HEAD // 2)
    angle = (k + 1) * _THETA ** (-2.0 * pairs / _HEAD)
    amplitude = (pairs < 4) * _POSITION
    query, key = attention.q_proj, attention.k_proj
    key.bias[rows] = torch.cat([amplitude, torch.zeros(_HEAD // 2)])
    query.bias[rows] = torch.cat([amplitude * angle.cos(), -amplitude * angle.sin()])
    query.weight[rows] *= 0.3
    key.weight[rows] *= 0.3
    attention.v_proj.weight[rows] = identity * _WRITE
    attention.o_proj.weight[:, rows] = past.T * _WRITE
