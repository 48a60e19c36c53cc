"""A base model computes the same in training as in sampling, whatever noise its configuration orders."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from rft.engines.base_model import load_base_model

_SHAPE = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
_GROUPED = {**_SHAPE, "intermediate_size": 16, "num_key_value_heads": 2}


@pytest.mark.parametrize(
    ("family", "shape"),
    [
        ("qwen3", {**_GROUPED, "head_dim": 8, "attention_dropout": 0.1}),
        ("mixtral", {**_GROUPED, "num_local_experts": 2, "router_jitter_noise": 0.1}),
        ("gpt2", {"vocab_size": 40, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}),  # 0.1 by default
        ("falcon", {**_SHAPE, "hidden_dropout": 0.1}),
        ("opt", {**_SHAPE, "ffn_dim": 16, "word_embed_proj_dim": 16, "dropout": 0.1, "layerdrop": 0.5}),
    ],
)
def test_it_gives_the_same_logits_in_an_update_as_in_sampling(
    tmp_path: Path, family: str, shape: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **shape)).save_pretrained(tmp_path)
    written = (tmp_path / "config.json").read_bytes()
    model = load_base_model(str(tmp_path))
    ids = torch.arange(3, 33)[None]
    with torch.no_grad():
        sampled, updated = model.eval()(input_ids=ids).logits, model.train()(input_ids=ids).logits
    assert torch.equal(sampled, updated)
    assert (tmp_path / "config.json").read_bytes() == written


def test_what_is_called_noise_and_counts_in_sampling_stays(tmp_path: Path) -> None:
    torch.manual_seed(0)
    shape = {**_GROUPED, "num_local_experts": 4, "router_jitter_noise": 0.3}
    published = AutoModelForCausalLM.from_config(AutoConfig.for_model("phimoe", **shape)).eval()
    published.save_pretrained(tmp_path)
    ids = torch.arange(3, 33)[None]
    with torch.no_grad():
        assert torch.equal(load_base_model(str(tmp_path)).eval()(input_ids=ids).logits, published(input_ids=ids).logits)
