"""A tiny random model with the starter's tokenizer, and a platform that serves it with its adapters."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
from openai import AsyncOpenAI

from rft.starter.tokenizer import build_tokenizer
from tests.shared.by_hand import tiny_model
from tests.shared.emptied_database import EmptiedDatabase
from tests.shared.saved_adapters import save_adapters
from tests.shared.served_models import ServedPlatform, served_platform


@pytest.fixture(scope="session")
def base_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder. Its context has 512 tokens."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tokenizer = build_tokenizer()
    tiny_model(tokenizer, head_std=0.5).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def platform(
    emptied_database: EmptiedDatabase, tmp_path_factory: pytest.TempPathFactory, base_model: Path
) -> Iterator[ServedPlatform]:
    with served_platform(emptied_database, tmp_path_factory.mktemp("home"), base_model) as running:
        save_adapters(running, base_model)
        yield running


@pytest.fixture
async def client(platform: ServedPlatform) -> AsyncIterator[AsyncOpenAI]:
    async with platform.sdk() as sdk:
        yield sdk
