"""Fixtures over the harness."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rft.starter.tokenizer import build_tokenizer
from tests.e2e.trainer.harness import Customer
from tests.shared.by_hand import tiny_model


@pytest.fixture
def customer() -> Iterator[Customer]:
    customer = Customer()
    yield customer
    customer.close()


@pytest.fixture(scope="session")
def base_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _save(tmp_path_factory.mktemp("base"), head_std=0.15)


@pytest.fixture(scope="session")
def teachable_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random too, but its head is wide enough that a LoRA can make it say anything."""
    return _save(tmp_path_factory.mktemp("teachable"), head_std=0.5)


def _save(path: Path, *, head_std: float) -> Path:
    tokenizer = build_tokenizer()
    tiny_model(tokenizer, head_std=head_std).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
