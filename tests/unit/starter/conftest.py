"""The starter's tokenizer, built once."""

import pytest
import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from rft.starter.encoding import Encoder
from rft.starter.model import build_model
from rft.starter.tokenizer import build_tokenizer


@pytest.fixture(scope="session", autouse=True)
def single_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer()


@pytest.fixture(scope="session")
def encoder(tokenizer: PreTrainedTokenizerFast) -> Encoder:
    return Encoder(tokenizer)


@pytest.fixture(scope="session")
def untrained(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    return build_model(tokenizer, seed=1).eval()
