"""A tiny random model with the starter's tokenizer."""

import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest

from rft.starter.tokenizer import build_tokenizer
from tests.shared.by_hand import tiny_model


@pytest.fixture(scope="session")
def base_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder. Its context has 512 tokens."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tokenizer = build_tokenizer()
    tiny_model(tokenizer, head_std=0.5).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
