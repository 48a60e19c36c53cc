"""Every family that users bring trains through the engine that can hold it, or is refused in words."""

from pathlib import Path

import pytest
from safetensors.torch import load
from transformers import PreTrainedTokenizerBase

from rft.core.events import RunEnded, StepDone
from rft.core.spec import RunSecrets
from rft.starter.tokenizer import build_tokenizer
from rft.trainer.run import run
from tests.e2e.trainer.harness import Customer, Trainer, adapter_bytes, events, write_run
from tests.shared.tiny_models import save_tiny

pytestmark = pytest.mark.timeout(900)

HELD = ["qwen3", "llama", "mistral", "mistral3", "gemma3_text", "gemma3", "qwen3_moe", "gpt_oss", "seed_oss", "olmo3"]
REFUSED = {
    "qwen3_5_text": "layers of the kind linear_attention",
    "lfm2": "layers of the kind conv",
    "llama4_text": "layers of the kind chunked_attention",
    "deepseek_v3": "multi-head latent attention",
    "gemma2": "caps its logits",
}


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return build_tokenizer()


@pytest.mark.parametrize("family", HELD)
def test_it_takes_two_steps_on_what_its_engine_sampled(
    family: str, customer: Customer, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    model = save_tiny(family, tokenizer, tmp_path / "model")
    run_dir = write_run(
        tmp_path / "run", model, customer.url, steps=2, max_tokens=12, valid_rows=1, engine="transformers"
    )
    Trainer.start(run_dir).wait()
    told = [line.event for line in events(run_dir)]
    assert [(event.outcome, event.error_message) for event in told if isinstance(event, RunEnded)] == [
        ("succeeded", None)
    ]
    updates = [event.optimization for event in told if isinstance(event, StepDone) and event.step > 0]
    assert len(updates) == 2
    for update in updates:
        assert update is not None
        assert update.trained_rollouts > 0
        assert update.grad_norm is not None
        assert 0 < update.grad_norm < float("inf")
        assert update.sampling_logp_difference == pytest.approx(0, abs=1e-4), "engine and trainer compute another model"
    trained = load(adapter_bytes(run_dir, 2))
    assert any("q_proj" in name for name in trained)
    assert not [
        name for name in trained if "experts" in name or "router" in name or "mlp.gate." in name or "vision" in name
    ]


@pytest.mark.parametrize("family", REFUSED)
def test_what_the_engine_cannot_hold_is_refused_in_words(
    family: str, customer: Customer, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    model = save_tiny(family, tokenizer, tmp_path / "model")
    ended = run(write_run(tmp_path / "run", model, customer.url, engine="transformers"), RunSecrets())
    assert (ended.outcome, ended.error_code, ended.error_param) == ("failed", "unusable_model", "model")
    assert REFUSED[family] in (ended.error_message or "")
    assert "The engine `vllm` can" in (ended.error_message or "")
