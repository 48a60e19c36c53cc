"""A trained model that also sees leaves whole, with what it sees with."""

import json
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerBase

from rft.engines.base_model import load_base_model
from rft.engines.merged_export import export_merged, main
from tests.shared.engine_contract import adapter, plain_logprobs, random_prompt
from tests.shared.tiny_models import save_tiny


def test_a_model_that_also_sees_is_merged_as_it_was_trained(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = save_tiny("mistral3", tokenizer, tmp_path / "base")
    for beside in ("preprocessor_config.json", "processor_config.json"):
        (base / beside).write_text(json.dumps({"of": beside}))
    adapter(tmp_path / "trained", lambda: load_base_model(str(base)), seed=1)
    with monkeypatch.context() as on_a_host_with_a_gpu:
        on_a_host_with_a_gpu.setattr("peft.peft_model.infer_device", lambda: "cuda")
        export_merged(tmp_path / "trained", tmp_path / "whole", str(base))
    for beside in ("preprocessor_config.json", "processor_config.json"):
        assert json.loads((tmp_path / "whole" / beside).read_text()) == {"of": beside}
    prompt, tokens = random_prompt(1, 6), (30, 31, 32)
    policy = PeftModel.from_pretrained(load_base_model(str(base)), str(tmp_path / "trained")).eval()
    merged = load_base_model(str(tmp_path / "whole")).eval()
    expected = plain_logprobs(policy, prompt, tokens)
    torch.testing.assert_close(plain_logprobs(merged, prompt, tokens), expected, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(plain_logprobs(load_base_model(str(base)).eval(), prompt, tokens), expected, atol=1e-2)
    before, after = load_file(base / "model.safetensors"), load_file(tmp_path / "whole" / "model.safetensors")
    assert set(before) == set(after)


def test_a_base_model_that_is_none_is_told_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "config.json").write_text(json.dumps({"model_type": "vit"}))
    monkeypatch.setattr("sys.argv", ["merged_export", str(tmp_path), str(tmp_path / "whole"), "--base", str(base)])
    with pytest.raises(SystemExit, match="vit are not causal language models"):
        main()
