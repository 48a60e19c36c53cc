"""The starter's tokenizer, built once."""

import pytest
import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from rft.trainer.starter.encoding import Encoder
from rft.trainer.starter.model import build_model
from rft.trainer.starter.tokenizer import build_tokenizer


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
