"""Whether servers sample from the weights that are trained: their log-probabilities against a plain forward pass.

Asked of the untrained policy and of the first adapter that differs from it, before anything is made of their samples.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from rft.core.errors import RunPaused
from rft.engines.base import Engine
from rft.engines.vllm.engine import VllmEngine
from rft.rollouts.sampler import Sample, SampleRequest, check_sample
from rft.trainer.loop_thread import LoopThread

LARGEST_MEAN_GAP = 0.1
"""Beyond rounding, also in half precision; another model or adapter is off by far more."""
_PROMPT_TOKENS, _SAMPLED_TOKENS = 64, 16


class EngineProbe:
    """Asks an engine of which it knows how; other engines hold the weights in this very process."""

    def __init__(
        self, engine: Engine, loop_thread: LoopThread, prompt_ids: Sequence[int], *, temperature: float
    ) -> None:
        """`temperature`: the job's, whose log-probabilities count."""
        self._engine, self._loop_thread, self._temperature = engine, loop_thread, temperature
        self._prompt_ids = tuple(prompt_ids[:_PROMPT_TOKENS])
        self.policy: nn.Module | None = None
        """What is trained, as it was published last."""
        self.passing: Callable[[], AbstractContextManager[None]] = nullcontext
        """Entered for each pass through it."""
        self._is_base_known = self._is_adapter_known = False

    def published(self, version: int) -> None:
        """Judge what is served now. Raises RunPaused."""
        is_known = self._is_adapter_known if version else self._is_base_known
        if is_known or self.policy is None or not isinstance(self._engine, VllmEngine):
            return
        # Without stop tokens, so that there is something to compare.
        request = SampleRequest(
            "probe", self._prompt_ids, _SAMPLED_TOKENS, (), seed=version, temperature=self._temperature
        )
        samples = self._loop_thread.call(self._engine.sample_at_each(request))
        for server, sample in samples.items():
            check_sample(sample, request)
            with self.passing():
                gap = mean_gap(self.policy, self._prompt_ids, sample, self._temperature)
            if not gap <= LARGEST_MEAN_GAP:
                what = f"the adapter of step {version}" if version else "the base model"
                raise RunPaused(
                    "engine_mismatch",
                    f"vLLM server {server} does not sample from {what}: its log-probabilities are {gap:.3g} off a "
                    f"forward pass in the mean, where {LARGEST_MEAN_GAP:g} is allowed. Does it serve the same files, "
                    f"and with `--logprobs-mode processed_logprobs`?",
                )
        self._is_base_known = True
        self._is_adapter_known = self._is_adapter_known or version > 0


@torch.no_grad()
def mean_gap(policy: nn.Module, prompt_ids: Sequence[int], sample: Sample, temperature: float = 1.0) -> float:
    """Mean absolute difference between a sample's log-probabilities and those of a plain forward pass.

    Both at the temperature that the sample was drawn at.
    """
    was_training = policy.training
    policy.eval()
    try:
        device = next(policy.parameters()).device
        logits_T_V = policy(input_ids=torch.tensor([[*prompt_ids, *sample.token_ids]], device=device)).logits[0]
    finally:
        policy.train(was_training)
    expected_T_V = torch.log_softmax(logits_T_V[len(prompt_ids) - 1 : -1].float() / temperature, dim=-1)
    expected_T = expected_T_V.gather(1, torch.tensor(sample.token_ids, device=device)[:, None])[:, 0]
    return float((expected_T - torch.tensor(sample.logprobs, device=device)).abs().mean())
