"""Whether servers sample from the weights that are trained: their log-probabilities against a plain forward pass.

Asked of the untrained policy and of adapters, before anything is made of their samples, until one has differed so much
from the base model that a server which left it out would have been seen.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import cast

import torch
from peft import PeftModel
from torch import nn

from rft.core.errors import RunPaused
from rft.engines.base import Engine
from rft.engines.vllm.engine import VllmEngine
from rft.rollouts.sampler import Sample, SampleRequest, check_sample
from rft.trainer.importance_gap import ENGINE_MISMATCH
from rft.trainer.loop_thread import LoopThread

LARGEST_MEAN_GAP = 0.1
"""Beyond rounding, also in half precision; another model or adapter is off by far more."""
_FEWEST_TIMES = 2.0
"""So much farther off one of policy and base model are the log-probabilities of a server that has the other."""
_ROUNDING = 1e-4
"""Gaps below say nothing, also in single precision."""
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
        is_applied = True
        for server, sample in samples.items():
            check_sample(sample, request)
            gap = self._gap(self.policy, sample)
            if not gap <= LARGEST_MEAN_GAP:
                what = f"the adapter of step {version}" if version else "the base model"
                raise RunPaused(
                    ENGINE_MISMATCH,
                    f"vLLM server {server} does not sample from {what}: its log-probabilities are {gap:.3g} off a "
                    f"forward pass in the mean, where {LARGEST_MEAN_GAP:g} is allowed. Does it serve the same files, "
                    f"and with `--logprobs-mode processed_logprobs`?",
                )
            is_applied = is_applied and (not version or self._is_applied(self.policy, server, version, sample, gap))
        self._is_base_known = True
        self._is_adapter_known = self._is_adapter_known or (version > 0 and is_applied)

    def _is_applied(self, policy: nn.Module, server: str, version: int, sample: Sample, gap: float) -> bool:
        """Whether the server is seen to have the adapter: young ones differ too little from the base model to tell.

        Raises RunPaused where it has the base model in its place.
        """
        with cast(PeftModel, policy).disable_adapter():
            without = self._gap(policy, sample)
        if gap > max(_ROUNDING, _FEWEST_TIMES * without):
            raise RunPaused(
                ENGINE_MISMATCH,
                f"vLLM server {server} does not apply the adapter of step {version}: its log-probabilities are "
                f"{gap:.3g} off a forward pass in the mean, and {without:.3g} off one of the base model alone. Does it "
                f"load adapters for every layer that is trained (`--lora-target-modules`)?",
            )
        return without > max(_ROUNDING, _FEWEST_TIMES * gap)

    def _gap(self, policy: nn.Module, sample: Sample) -> float:
        with self.passing():
            return mean_gap(policy, self._prompt_ids, sample, self._temperature)


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
