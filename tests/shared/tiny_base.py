"""Fixtures: a tiny random base model with the starter's tokenizer."""

from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerBase

from rft.starter.tokenizer import build_tokenizer
from tests.shared.by_hand import tiny_model


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    return build_tokenizer()


@pytest.fixture
def model_dir(tmp_path: Path, tokenizer: PreTrainedTokenizerBase) -> Path:
    path = tmp_path / "base"
    tiny_model(tokenizer).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
