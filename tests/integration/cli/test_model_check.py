"""`rft models check` as somebody types it: no platform runs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rft.platform.cli.app import app
from rft.platform.settings import settings
from rft.starter.tokenizer import build_tokenizer
from tests.shared.forked_checks import fork_checks


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The starter's tokenizer."""
    folder = tmp_path / "model"
    build_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def forked_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    fork_checks(monkeypatch)


def configure(model: Path, **fields: object) -> None:
    (model / "config.json").write_text(json.dumps({"max_position_embeddings": 2048, **fields}))


def checked(
    tmp_path: Path, *arguments: object, base_models: dict[str, Any] | None = None, engine: str = "transformers"
) -> tuple[int, str]:
    environment = {
        "RFT_HOME": str(tmp_path / "home"),
        "RFT_BASE_MODELS": json.dumps(base_models or {}),
        "RFT_ENGINE": engine,
    }
    settings.cache_clear()
    done = CliRunner().invoke(app, ["models", "check", *map(str, arguments)], env=environment)
    settings.cache_clear()
    return done.exit_code, done.output


@pytest.mark.usefixtures("forked_checks")
def test_why_a_context_is_shorter_than_published_is_told(tmp_path: Path, model: Path) -> None:
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    rope = {"type": "longrope", "short_factor": [1.0] * 16, "long_factor": [4.0] * 16}
    more = {"num_key_value_heads": 2, "vocab_size": 1000, "pad_token_id": 0, "original_max_position_embeddings": 256}
    configure(model, model_type="phi3", **shape, **more, rope_scaling=rope)
    status, told = checked(tmp_path, model)
    assert status == 0, told
    assert "context:     256 tokens of prompt and completion at most\n               beyond, LongRoPE has one" in told
    assert "contexts of 256 tokens" in told


def test_a_folder_is_told_of_in_words(tmp_path: Path, model: Path) -> None:
    configure(model, model_type="qwen3", hidden_size=64, intermediate_size=128, num_hidden_layers=2, vocab_size=1000)
    status, told = checked(tmp_path, model)
    assert status == 0
    assert f"{model} can be trained to use tools" in told
    assert "chat format: hermes, by the model's own template (fingerprint " in told
    assert "stop tokens: <|im_end|>" in told
    assert "thinking:    no switch, reasoning_effort has no effect" in told
    assert "context:     2,048 tokens of prompt and completion at most" in told
    assert "engines:     transformers, vllm" in told
    # Embeddings and head of 1,000 x 64 each; two layers of 4 x 64 x 32 x 128 in attention, 3 x 64 x 128 in the MLP.
    assert "weights:     0.01 GiB, 2.3 million parameters" in told
    assert re.search(
        r"training:    0\.\d\d GiB: weights, adapter with optimizer 0\.\d\d GiB, [\d,]+ tokens at once", told
    )
    assert "sampling:    4.02 GiB with a full cache: up to 256 conversations at once, 64.0 KiB a token" in told
    assert re.search(
        r"auto:        engine transformers, micro-batches of [\d,]+ tokens, contexts of 2,048 tokens", told
    )
    assert "adapter of rank 16 on down_proj gate_proj k_proj o_proj q_proj up_proj v_proj" in told
    assert "linear learning rate, no warm-up, temperature 1, beta 0" in told


@pytest.mark.usefixtures("forked_checks")
def test_a_model_that_the_engine_in_use_cannot_hold_is_told_so(tmp_path: Path, model: Path) -> None:
    configure(model, model_type="lfm2", layer_types=["conv", "full_attention"], num_hidden_layers=2)
    status, told = checked(tmp_path, model)
    assert status == 1
    assert "the engine `transformers` cannot sample from it: it has layers of the kind conv" in told
    status, told = checked(tmp_path, model, engine="vllm")
    assert status == 0
    assert "engines:     vllm alone: it has layers of the kind conv" in told


@pytest.mark.usefixtures("forked_checks")
def test_a_registered_name_is_looked_at_with_its_settings(tmp_path: Path, model: Path) -> None:
    configure(model, model_type="qwen3")
    registered = {"mine": {"path": str(model), "max_context_tokens": 512, "chat_format": "hermes"}}
    status, told = checked(tmp_path, "mine", "--json", base_models=registered)
    found = json.loads(told)
    assert (status, found["model"], found["path"], found["max_context_tokens"]) == (0, "mine", str(model), 512)
    assert (found["check"]["chat_format"], found["check"]["problem"]) == ("hermes", None)


def test_a_model_that_cannot_use_tools_says_why(tmp_path: Path, model: Path) -> None:
    (model / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}")
    status, told = checked(tmp_path, model)
    assert status == 1
    assert f"{model} cannot be trained to use tools: the chat template has no place for tool calls" in told


def test_what_is_not_here_is_told_with_what_is(tmp_path: Path, model: Path) -> None:
    status, told = checked(tmp_path, "nobody/nothing", base_models={"mine": str(model)})
    assert status == 1
    assert "there is no tokenizer.json in nobody/nothing" in told
    assert "Base models here: mine, starter" in told
