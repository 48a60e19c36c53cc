"""Traces, groups and a tiny random model, made by hand for the trainer's tests."""

from collections.abc import Sequence
from typing import cast

import torch
from transformers import PreTrainedTokenizerBase, Qwen2Config, Qwen2ForCausalLM

from rft.core.failure import Failure, FailureCode, Stage
from rft.core.grade import Grade
from rft.core.group import Group
from rft.core.rollout import Rollout, RolloutKey, Split, StopReason
from rft.core.turns import TokenSpan, Trace


def tiny_model(
    tokenizer: PreTrainedTokenizerBase, seed: int = 0, head_std: float = 0.15, head_size: int = 8
) -> Qwen2ForCausalLM:
    """The same untied random model at each call; the wider its head, the more a LoRA can change what it says."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        hidden_size=4 * head_size,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        vocab_size=len(tokenizer),
        tie_word_embeddings=False,
        max_position_embeddings=512,
        pad_token_id=cast(int, tokenizer.pad_token_id),
        eos_token_id=cast(int, tokenizer.eos_token_id),
    )
    model = Qwen2ForCausalLM(config)
    with torch.no_grad():
        model.lm_head.weight.normal_(0, head_std)
    return model


def trace_of(prompt: Sequence[int], *spans: tuple[str, Sequence[int]]) -> Trace:
    """A trace of ("sampled" | "tool", ids) spans; sampled tokens get log-probability -1."""
    trace = Trace(tuple(prompt))
    for kind, ids in spans:
        is_sampled = kind == "sampled"
        trace.append(TokenSpan.sampled(tuple(ids), (-1.0,) * len(ids)) if is_sampled else TokenSpan.context(tuple(ids)))
    return trace


def rollout_of(trace: Trace, reward: float | None, *, index: int = 0, row_index: int = 0, step: int = 1) -> Rollout:
    """A finished rollout; without reward it failed at its grader."""
    key = RolloutKey(job_id="job", job_seed=1, split=Split.TRAIN, step=step, epoch=0, row_index=row_index, index=index)
    failure = Failure(stage=Stage.GRADER, code=FailureCode.SERVER_ERROR, message="grader answered 503", endpoint="g")
    return Rollout(
        key=key,
        trace_id=f"trace_{row_index}_{index}",
        policy_version=0,
        trace=trace,
        stop_reason=StopReason.COMPLETED,
        outcome=failure if reward is None else Grade(reward=reward, grader="g"),
        messages=(),
        duration_s=1.0,
        sampling_s=1.0,
        tools_s=0.0,
        grading_s=0.0,
    )


def group_of(traces: Sequence[Trace], rewards: Sequence[float | None], *, row_index: int = 0) -> Group:
    """A group from traces and their rewards."""
    return Group(
        row_index,
        tuple(
            rollout_of(trace, reward, index=i, row_index=row_index)
            for i, (trace, reward) in enumerate(zip(traces, rewards, strict=True))
        ),
    )
