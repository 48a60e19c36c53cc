"""The starter's tokenizer and chat template: small, byte-complete, and cut so that copying is easy.

Words never carry a leading space, so a word is the same token in a question, in a JSON argument, in a path and in a
reply; years, two-digit numbers and runs of punctuation such as `": {"` are one token each.
"""

import random
from collections.abc import Iterator

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from rft.starter.habits import BUDGET_USED_UP, WORDS, Habits, play
from rft.starter.world import ADJECTIVES, INDUSTRIES, QUESTIONS, WARMUP_COMPANIES, YEARS, World

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
_CONTROL = (PAD, START, END)
_MARKUP = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
_PIECES = r"(?:19|20)\d\d|\d{1,3}|[A-Za-z]+|[^A-Za-z0-9]+"
_VOCABULARY_LIMIT = 2048
_MAX_CONTEXT_TOKENS = 4096

CHAT_TEMPLATE = """\
{%- for message in messages -%}
{%- set role = 'system' if message.role == 'developer' else message.role -%}
{%- if role == 'tool' -%}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' -%}
{{- '<|im_start|>user\\n' -}}
{%- else -%}
{{- '\\n' -}}
{%- endif -%}
{{- '<tool_response>\\n' + message.content + '\\n</tool_response>' -}}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' -%}
{{- '<|im_end|>\\n' -}}
{%- endif -%}
{%- else -%}
{{- '<|im_start|>' + role + '\\n' + (message.content or '') -}}
{%- for tool_call in message.tool_calls or [] -%}
{%- set call = tool_call.function or tool_call -%}
{%- if message.content or not loop.first -%}
{{- '\\n' -}}
{%- endif -%}
{{- '<tool_call>\\n{"name": "' + call.name + '", "arguments": ' -}}
{{- call.arguments if call.arguments is string else call.arguments | tojson -}}
{{- '}\\n</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""
"""ChatML with Hermes tool calls. Tool schemas are left out: the starter knows its three tools, and a listing would cost
more tokens than a whole rollout."""


def build_tokenizer() -> PreTrainedTokenizerFast:
    """The same tokenizer every time: it depends on no seed, so that two starters differ in weights alone."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY_LIMIT,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[
            *(AddedToken(token, special=True, normalized=False) for token in _CONTROL),
            *(AddedToken(token, special=False, normalized=False) for token in _MARKUP),
        ],
    )
    bpe.train_from_iterator(_training_texts(), trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        pad_token=PAD,
        eos_token=END,
        clean_up_tokenization_spaces=False,
        model_max_length=_MAX_CONTEXT_TOKENS,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _training_texts() -> Iterator[str]:
    """What stands between control and markup tokens: training knows nothing of those, and would merge across them."""
    rng = random.Random(0)
    for _ in range(20):
        world = World.draw(rng, rng.sample(WARMUP_COMPANIES, 24))
        for _ in range(40):
            question = world.question(rng)
            yield from (f"user\n{question.text}", "\n", "assistant\n")
            for exchange in play(rng, world, question, Habits()):
                yield exchange.text.removeprefix("<tool_call>").removesuffix("</tool_call>")
                yield from ("\n", "user\n", f"\n{exchange.output}\n", "\n", "assistant\n")
    numbers = [str(number) for number in (*range(100), *YEARS)]
    vocabulary = [*ADJECTIVES, *INDUSTRIES, *WORDS, *numbers, *QUESTIONS, BUDGET_USED_UP, "system", "user", "assistant"]
    for _ in range(3):
        yield from vocabulary
