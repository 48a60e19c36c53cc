"""A base model computes the same in training as in sampling, whatever noise its configuration orders."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

from rft.engines.architecture import read_config
from rft.engines.base_model import load_base_model, max_context_tokens
from rft.platform.orders.base_model_config import context_tokens, longrope_tokens

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


def test_no_context_reaches_where_the_longest_rollout_of_a_pass_changes_what_is_computed_of_all(
    tmp_path: Path,
) -> None:
    rope = {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4}
    torch.manual_seed(0)
    shape = {**_GROUPED, "pad_token_id": 0, "max_position_embeddings": 64, "original_max_position_embeddings": 16}
    config = AutoConfig.for_model("phi3", **shape, rope_scaling=rope)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    published = {"model_type": "phi3", **shape, "rope_scaling": rope}
    for written in ((tmp_path / "config.json").read_text(), json.dumps(published)):
        (tmp_path / "config.json").write_text(written)
        assert max_context_tokens(read_config(str(tmp_path))) == context_tokens(str(tmp_path)) == 16
        assert max_context_tokens(read_config(str(tmp_path)), 8) == context_tokens(str(tmp_path), 8) == 8
        assert longrope_tokens(str(tmp_path)) == 16
    model = load_base_model(str(tmp_path)).eval()
    short, long = torch.arange(3, 11)[None], torch.arange(3, 35)[None]

    def logits_beside(other: torch.Tensor) -> torch.Tensor:
        """Of eight tokens that are packed in front of others, each at its own positions."""
        positions = torch.cat([torch.arange(8), torch.arange(other.shape[1])])[None]
        with torch.no_grad():
            return model(input_ids=torch.cat([short, other], 1), position_ids=positions).logits[:, :8]

    assert torch.allclose(logits_beside(long[:, :16]), logits_beside(long[:, :8]), atol=1e-5)
    assert not torch.allclose(logits_beside(long), logits_beside(long[:, :8]), atol=1e-5)


def test_other_scaled_positions_limit_nothing(tmp_path: Path) -> None:
    rope = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    shape = {**_GROUPED, "max_position_embeddings": 64, "rope_theta": 10_000.0}
    rope["original_max_position_embeddings"] = 16
    AutoConfig.for_model("llama", **shape, rope_scaling=rope).save_pretrained(tmp_path)
    assert max_context_tokens(read_config(str(tmp_path))) == context_tokens(str(tmp_path)) == 64
    assert longrope_tokens(str(tmp_path)) is None


def test_weights_that_a_gpu_could_compute_with_as_they_are_are_turned_into_numbers_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hopper(*_: object) -> tuple[int, int]:
        return 9, 0

    torch.manual_seed(0)
    published = AutoModelForCausalLM.from_config(AutoConfig.for_model("qwen3", **_GROUPED, head_dim=8)).eval()
    published.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    for name in [name for name in weights if name.endswith("proj.weight")]:
        scale = weights[name].abs().max() / 448
        weights[name] = (weights[name] / scale).to(torch.float8_e4m3fn)
        weights[f"{name}_scale_inv"] = scale.reshape(1, 1)
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    config = json.loads((tmp_path / "config.json").read_text())
    quantized = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    (tmp_path / "config.json").write_text(json.dumps({**config, "quantization_config": quantized}))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", hopper)
    model = load_base_model(str(tmp_path)).eval()
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    ids = torch.arange(3, 33)[None]
    with torch.no_grad():
        torch.testing.assert_close(model(input_ids=ids).logits, published(input_ids=ids).logits, atol=0.02, rtol=0)
