"""How far a sample's log-probabilities are off those of the model that is trained."""

import pytest
import torch
from transformers import PreTrainedTokenizerBase

from rft.rollouts.sampler import FinishReason, Sample
from rft.trainer.engine_probe import LARGEST_MEAN_GAP, mean_gap
from tests.shared.by_hand import tiny_model
from tests.shared.engine_contract import plain_logprobs, random_prompt


def test_the_same_weights_agree_and_others_do_not(tokenizer: PreTrainedTokenizerBase) -> None:
    model, prompt, tokens = tiny_model(tokenizer).train(), random_prompt(1, 20), (30, 40, 50)
    exact = plain_logprobs(model, prompt, tokens)
    sample = Sample(tokens, tuple(exact.tolist()), FinishReason.LENGTH)
    assert mean_gap(model, prompt, sample) < 1e-6
    assert model.training, "it goes on being trained"
    assert mean_gap(tiny_model(tokenizer, seed=1), prompt, sample) > LARGEST_MEAN_GAP
    shifted = Sample(tokens, tuple((exact - torch.tensor([0.3, 0.0, -0.6])).tolist()), FinishReason.LENGTH)
    assert mean_gap(model, prompt, shifted) == pytest.approx(0.3, abs=1e-5)
