"""The supervised warm-up on one learning-rate schedule: synthetic copying, traces of good habits, of mediocre ones.

The good habits come first because a skill forms from clean examples only; the mediocre ones then blur the strategy and
leave the skill.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import LlamaForCausalLM

from rft.starter.encoding import Encoder, Example, draw_copying, draw_traces
from rft.starter.habits import SKILLED, WORDS, Habits
from rft.starter.world import ADJECTIVES, INDUSTRIES, WARMUP_COMPANIES

_COPY_BATCH, _COPY_TOKENS = 32, 64
_TRACE_BATCH = 16
_LEARNING_RATE = 2e-3
_RISE_STEPS = 20
_DECAY_FROM = 0.6
_LAST_RATE = 0.02


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long to train."""

    copy_steps: int = 100
    skill_steps: int = 60
    habit_steps: int = 80
    extra_steps: int = 30
    """Steps of each further round when the gate is not passed."""


def warm_up(model: LlamaForCausalLM, encoder: Encoder, rng: random.Random, habits: Habits, schedule: Schedule) -> None:
    """The whole warm-up, in place."""
    words = (*ADJECTIVES, *INDUSTRIES, *WORDS)
    copying = [
        [draw_copying(encoder, rng, words, _COPY_TOKENS) for _ in range(_COPY_BATCH)]
        for _ in range(schedule.copy_steps)
    ]
    skills = _trace_batches(encoder, rng, SKILLED, schedule.skill_steps)
    strategy = _trace_batches(encoder, rng, habits, schedule.habit_steps)
    _fit(model, [*copying, *skills, *strategy], rise=_RISE_STEPS)


def train_on(model: LlamaForCausalLM, encoder: Encoder, rng: random.Random, habits: Habits, steps: int) -> None:
    """A further round on traces alone."""
    _fit(model, list(_trace_batches(encoder, rng, habits, steps)), rise=5)


def _trace_batches(encoder: Encoder, rng: random.Random, habits: Habits, steps: int) -> Iterator[Sequence[Example]]:
    """Batches of similar length, in random order."""
    examples = draw_traces(encoder, rng, WARMUP_COMPANIES, habits, steps * _TRACE_BATCH)
    examples.sort(key=lambda example: len(example.token_ids_T))
    for start in rng.sample(range(0, len(examples), _TRACE_BATCH), steps):
        yield examples[start : start + _TRACE_BATCH]


def _fit(model: LlamaForCausalLM, batches: Sequence[Sequence[Example]], *, rise: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.01)
    model.train()
    for step, batch in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = _LEARNING_RATE * rate(step, len(batches), rise)
        optimizer.zero_grad()
        _loss(model, batch).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()


def rate(step: int, steps: int, rise: int) -> float:
    """Share of the learning rate: up, level, then down in a straight line."""
    progress = step / steps
    fall = 1.0 if progress < _DECAY_FROM else 1 - (1 - _LAST_RATE) * (progress - _DECAY_FROM) / (1 - _DECAY_FROM)
    return min((step + 1) / rise, fall)


def _loss(model: LlamaForCausalLM, batch: Sequence[Example]) -> Tensor:
    """Weighted mean cross entropy of the next token. Padding stands on the right, where causality hides it."""
    length = max(len(example.token_ids_T) for example in batch)
    ids_B_T = torch.zeros(len(batch), length, dtype=torch.long)
    weights_B_T = torch.zeros(len(batch), length)
    for row, example in enumerate(batch):
        ids_B_T[row, : len(example.token_ids_T)] = torch.tensor(example.token_ids_T)
        weights_B_T[row, : len(example.token_ids_T)] = torch.tensor(example.weights_T)
    hidden_B_T_D = model.model(input_ids=ids_B_T, use_cache=False).last_hidden_state[:, :-1]
    is_target = weights_B_T[:, 1:] > 0
    weights = weights_B_T[:, 1:][is_target]
    losses = cross_entropy(model.lm_head(hidden_B_T_D[is_target]), ids_B_T[:, 1:][is_target], reduction="none")
    return (losses * weights).sum() / weights.sum()
