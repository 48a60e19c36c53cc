"""Measuring a starter: can it copy, and how good are its habits?"""

import random
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from rft.starter.encoding import Encoder
from rft.starter.habits import Habits, play
from rft.starter.player import PlayedRollout, play_policy
from rft.starter.report import Baseline, Probes
from rft.starter.world import PROBE_COMPANIES, YEARS, World

FLAWLESS = Habits(
    list_first=0,
    list_again=0,
    query_year=1,
    query_metric=0,
    search_again=0,
    mistyped_page=0,
    right_row=1,
    right_metric=1,
    unknown=0,
    focus=1,
)


@torch.inference_mode()
def measure_copying(model: LlamaForCausalLM, encoder: Encoder, seed: int, traces: int) -> Probes:
    """Teacher-forced copying along flawless traces about companies never seen."""
    rng = random.Random(seed)
    world = World.draw(rng, PROBE_COMPANIES)
    years = [encoder.encode(str(year))[0] for year in YEARS]
    rights_P: list[list[float]] = []
    bests_P: list[list[bool]] = []
    for _ in range(traces):
        question = world.question(rng)
        example = encoder.example(question, play(rng, world, question, FLAWLESS))
        ids_T = torch.tensor(example.token_ids_T)
        probabilities_T_V: Tensor = model(input_ids=ids_T[None]).logits[0].softmax(-1)
        # A flawless trace copies the year of the query, year and page of the path, the metric, the value.
        year, _, page, metric, value = (place for place, weight in enumerate(example.weights_T) if weight > 1)
        # After the company a query may go on with a metric: only the choice among the years is copying.
        year_probabilities = torch.zeros_like(probabilities_T_V[0])
        year_probabilities[years] = probabilities_T_V[year - 1, years] / probabilities_T_V[year - 1, years].sum()
        rows = (year_probabilities, *(probabilities_T_V[place - 1] for place in (page, metric, value)))
        targets = [int(ids_T[place]) for place in (year, page, metric, value)]
        rights_P.append([float(row[target]) for row, target in zip(rows, targets, strict=True)])
        bests_P.append([int(row.argmax()) == target for row, target in zip(rows, targets, strict=True)])
    accuracy = torch.tensor(bests_P).float().mean(0).tolist()
    probability = torch.tensor(rights_P).mean(0).tolist()
    return Probes(
        year_accuracy=accuracy[0],
        page_accuracy=accuracy[1],
        metric_accuracy=accuracy[2],
        value_accuracy=accuracy[3],
        year_probability=probability[0],
        page_probability=probability[1],
        metric_probability=probability[2],
        value_probability=probability[3],
    )


def measure_baseline(model: LlamaForCausalLM, encoder: Encoder, seed: int, rollouts: int) -> Baseline:
    """Rollouts about companies never seen, sampled as in training, and a quarter as many greedy ones."""
    rng = random.Random(seed)
    world = World.draw(rng, PROBE_COMPANIES)
    questions = [world.question(rng) for _ in range(rollouts)]
    sampled = play_policy(model, encoder, world, questions, temperature=1.0, seed=seed)
    greedy = play_policy(model, encoder, world, questions[: max(1, rollouts // 4)], temperature=0.0, seed=seed)
    return Baseline(
        rollouts=rollouts,
        reward=_mean([rollout.reward for rollout in sampled]),
        calls=_mean([len(rollout.calls) for rollout in sampled]),
        sampled_tokens=_mean([rollout.sampled_tokens for rollout in sampled]),
        answered=_mean([_has_answered(rollout) for rollout in sampled]),
        greedy_reward=_mean([rollout.reward for rollout in greedy]),
    )


def _has_answered(rollout: PlayedRollout) -> bool:
    return rollout.turns[-1].startswith("Answer:")


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
