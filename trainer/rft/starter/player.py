"""Many rollouts at once inside this process, for measuring the starter while it is built; training uses an engine."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers import DynamicCache, LlamaForCausalLM

from rft.starter.encoding import Encoder
from rft.starter.habits import BUDGET_USED_UP, MAX_CALLS
from rft.starter.world import ARGUMENT_NAMES, Question, World

_MAX_TURN_TOKENS = 40
_CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
_ANSWER = re.compile(r"Answer: \w+: (\d+)\s*$")
MODEL_ERROR = "Error: the tool call is malformed."


@dataclass(slots=True)
class PlayedRollout:
    """One rollout: what the policy wrote, turn by turn, and what came of it."""

    question: Question
    turns: list[str] = field(default_factory=list[str])
    calls: list[str] = field(default_factory=list[str])
    """Names of the tools called."""
    reward: float = 0.0
    sampled_tokens: int = 0
    spans: list[tuple[list[int], bool]] = field(default_factory=list[tuple[list[int], bool]])
    """Token ids in order, and whether the policy sampled them."""


def grade(text: str, answer: int) -> float:
    """1 for the exact number, 0.5 within 5 %, else 0."""
    match = _ANSWER.search(text)
    if match is None:
        return 0.0
    error = abs(int(match[1]) - answer)
    return 1.0 if error == 0 else 0.5 if error <= 0.05 * answer else 0.0


@torch.inference_mode()
def play_policy(
    model: LlamaForCausalLM,
    encoder: Encoder,
    world: World,
    questions: Sequence[Question],
    *,
    temperature: float,
    seed: int,
) -> list[PlayedRollout]:
    """One rollout per question, all in one batch; temperature 0 is greedy."""
    rollouts = [PlayedRollout(question) for question in questions]
    batch = Batch(model, encoder.end_id, len(questions), temperature, torch.Generator().manual_seed(seed))
    blocks = [list(encoder.prompt(question.text)) for question in questions]
    live = list(range(len(questions)))
    for rollout, block in zip(rollouts, blocks, strict=True):
        rollout.spans.append((block, False))
    while live:
        turns = batch.turn(blocks)
        keep: list[int] = []
        blocks = []
        for row, (index, ids) in enumerate(zip(live, turns, strict=True)):
            reply = _take(rollouts[index], encoder, world, ids)
            if reply is not None:
                keep.append(row)
                block = encoder.suffix(reply)
                rollouts[index].spans.append((block, False))
                blocks.append([encoder.end_id, *block])
        live = [live[row] for row in keep]
        batch.keep(keep)
    return rollouts


def _take(rollout: PlayedRollout, encoder: Encoder, world: World, ids: list[int]) -> str | None:
    """Record a sampled turn; the tools' reply, or None when the rollout is over (and graded)."""
    rollout.spans.append((ids, True))
    rollout.sampled_tokens += len(ids)
    text = str(encoder.tokenizer.decode([token for token in ids if token != encoder.end_id]))
    rollout.turns.append(text)
    call = _CALL.search(text)
    is_cut = ids[-1] != encoder.end_id
    if call is None or is_cut or len(rollout.calls) > MAX_CALLS:
        rollout.reward = grade(text, rollout.question.answer)
        return None
    if len(rollout.calls) == MAX_CALLS:
        rollout.calls.append("")
        return BUDGET_USED_UP
    return _run(rollout, world, call[1])


def _run(rollout: PlayedRollout, world: World, call: str) -> str:
    try:
        request = json.loads(call)
        name = request["name"]
        argument = request["arguments"][ARGUMENT_NAMES[name]]
        output = world.call(name, argument)
    except (ValueError, KeyError, TypeError, AttributeError):
        rollout.calls.append("malformed")
        return MODEL_ERROR
    rollout.calls.append(name)
    return output


class Batch:
    """A growing key-value cache. Rows that are done or shorter leave holes in the mask, which positions skip."""

    def __init__(
        self, model: LlamaForCausalLM, end_id: int, rows: int, temperature: float, generator: torch.Generator
    ) -> None:
        self._model, self._end_id, self._temperature, self._generator = model, end_id, temperature, generator
        self._cache = DynamicCache(config=model.config)
        self._mask_B_T = torch.zeros(rows, 0, dtype=torch.long)

    def turn(self, blocks: Sequence[list[int]]) -> list[list[int]]:
        """Append a block of context to each row, then sample each to its end token (included) or the limit."""
        width = max(map(len, blocks))
        ids_B_T = torch.tensor([[self._end_id] * (width - len(block)) + block for block in blocks])
        mask_B_T = torch.tensor([[0] * (width - len(block)) + [1] * len(block) for block in blocks])
        logits_B_V = self._feed(ids_B_T, mask_B_T)
        turns: list[list[int]] = [[] for _ in blocks]
        is_live_B = torch.ones(len(blocks), dtype=torch.bool)
        for _ in range(_MAX_TURN_TOKENS):
            token_B = self._draw(logits_B_V)
            for row in is_live_B.nonzero().flatten().tolist():
                turns[row].append(int(token_B[row]))
            is_live_B &= token_B != self._end_id
            if not is_live_B.any():
                break
            logits_B_V = self._feed(token_B[:, None], is_live_B[:, None].long())
        return turns

    def keep(self, rows: list[int]) -> None:
        """Drop all other rows."""
        if rows and len(rows) < len(self._mask_B_T):
            index = torch.tensor(rows)
            self._cache.batch_select_indices(index)
            self._mask_B_T = self._mask_B_T[index]

    def _draw(self, logits_B_V: Tensor) -> Tensor:
        if self._temperature == 0:
            return logits_B_V.argmax(-1)
        probabilities = (logits_B_V / self._temperature).softmax(-1)
        return torch.multinomial(probabilities, 1, generator=self._generator)[:, 0]

    def _feed(self, ids_B_T: Tensor, mask_B_T: Tensor) -> Tensor:
        self._mask_B_T = torch.cat([self._mask_B_T, mask_B_T], 1)
        positions = (self._mask_B_T.cumsum(1) - 1).clamp(min=0)[:, -ids_B_T.shape[1] :]
        output = self._model(
            input_ids=ids_B_T,
            attention_mask=self._mask_B_T,
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        assert isinstance(output.logits, Tensor)
        return output.logits[:, -1]
