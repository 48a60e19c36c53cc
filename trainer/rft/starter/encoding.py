"""Traces as token ids, put together exactly as a rollout puts them together: prompt, then turn and suffix by turns."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerFast

from rft.starter.habits import Exchange, Habits, play
from rft.starter.tokenizer import END
from rft.starter.world import METRICS, YEARS, Question, World

_COMPANIES_PER_WORLD = 24
_TRACES_PER_WORLD = 80
_COPY_WEIGHT = 5.0
"""Of years, pages, values and metrics: what must be copied without a slip."""


@dataclass(frozen=True, slots=True)
class Example:
    """One sequence to learn from. Both have the same length T."""

    token_ids_T: Sequence[int]
    weights_T: Sequence[float]
    """Loss weight of each token; 0 where somebody else wrote it."""


class Encoder:
    """Encodes texts, remembering the many that repeat."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.tokenizer = tokenizer
        self._seen: dict[str, list[int]] = {}
        self.end_id = self.encode(END)[0]
        self.number_ids = frozenset(self.encode(str(number))[0] for number in (*range(10, 100), *YEARS))
        self.copied_ids = self.number_ids | {self.encode(metric)[0] for metric in METRICS}

    def encode(self, text: str) -> list[int]:
        """Ids of a text."""
        ids = self._seen.get(text)
        if ids is None:
            ids = self._seen[text] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def prompt(self, question: str) -> list[int]:
        """Ids of a conversation that starts with a user's question, ready for the answer."""
        text = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], tokenize=False, add_generation_prompt=True
        )
        assert isinstance(text, str)
        return self.encode(text)

    def suffix(self, output: str) -> list[int]:
        """Ids between a sampled turn, end token included, and the next: a tool's reply in the template's form."""
        text = f"\n<|im_start|>user\n<tool_response>\n{output}\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
        return self.encode(text)

    def example(self, question: Question, exchanges: Sequence[Exchange]) -> Example:
        """A trace with loss on what the assistant wrote."""
        ids = list(self.prompt(question.text))
        weights = [0.0] * len(ids)
        for exchange in exchanges:
            written = [*self.encode(exchange.text), self.end_id]
            ids += written
            weights += [_COPY_WEIGHT if token in self.copied_ids else 1.0 for token in written]
            if exchange.output is not None:
                glue = self.suffix(exchange.output)
                ids += glue
                weights += [0.0] * len(glue)
        return Example(ids, weights)


def draw_traces(
    encoder: Encoder, rng: random.Random, companies: Sequence[str], habits: Habits, count: int
) -> list[Example]:
    """Traces over fresh worlds of these companies."""
    examples: list[Example] = []
    while len(examples) < count:
        world = World.draw(rng, rng.sample(companies, _COMPANIES_PER_WORLD))
        for _ in range(min(_TRACES_PER_WORLD, count - len(examples))):
            question = world.question(rng)
            examples.append(encoder.example(question, play(rng, world, question, habits)))
    return examples


def draw_copying(encoder: Encoder, rng: random.Random, words: Sequence[str], length: int) -> Example:
    """Random `key separator value` rows, then the same rows in other orders; there, loss on separators and values."""
    numbers = sorted(encoder.number_ids)
    keys = [encoder.encode(word)[0] for word in (*words, *map(str, YEARS))]
    newline = encoder.encode("\n")
    rows: list[list[int]] = []
    for key in rng.sample(keys, rng.randint(5, 8)):
        separator = rng.choice((encoder.encode("/"), encoder.encode(": "), encoder.encode(" "), []))
        value = rng.choice(numbers) if rng.random() < 0.75 else rng.choice(keys)
        rows.append([key, *separator, value, *newline])
    ids = [token for row in rows for token in row]
    weights = [0.0] * len(ids)
    while len(ids) < length:
        for row in rng.sample(rows, len(rows)):
            ids += row
            weights += [0.0, *(1.0 for _ in row[1:])]
    return Example(ids[:length], weights[:length])
