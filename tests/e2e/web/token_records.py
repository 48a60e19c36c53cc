"""Tokens of made-up rollouts, in the trainer's own records."""

import random
import re
from collections.abc import Sequence

from rft.core.events import RatiosMeasured, RolloutDone, TokensSampled
from rft.core.messages import Message, Role
from rft.core.token_record import pack_float16, pack_tokens, prompt_name
from rft.core.turns import TokenSpan

_TOKEN = re.compile(r"\s?\w{1,6}|\s|[^\w\s]")


def tokens_of(done: RolloutDone) -> tuple[TokensSampled, RatiosMeasured]:
    """Tokens of the rollout's messages: what stands before the policy's first is the prompt."""
    first = next(at for at, message in enumerate(done.messages) if message.role is Role.ASSISTANT)
    prompt = [piece for message in done.messages[:first] for piece in _pieces(message)]
    rest = [(piece, message.role is Role.ASSISTANT) for message in done.messages[first:] for piece in _pieces(message)]
    return told(done.trace_id, prompt, rest)


def told(
    trace_id: str, prompt: Sequence[str], rest: Sequence[tuple[str, bool]]
) -> tuple[TokensSampled, RatiosMeasured]:
    """Tokens by their text, behind the prompt with whether each was sampled; figures are drawn by chance."""
    chance = random.Random(trace_id)
    texts = [*prompt, *(text for text, _ in rest)]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts), start=100)}
    packed = pack_tokens(TokenSpan.context(tuple(numbers[text] for text in prompt)))
    is_sampled_T = tuple(is_sampled for _, is_sampled in rest)
    logprobs_T = tuple(-(chance.expovariate(0.8) ** 2) if is_sampled else 0.0 for is_sampled in is_sampled_T)
    completion = TokenSpan(tuple(numbers[text] for text, _ in rest), is_sampled_T, logprobs_T)
    return (
        TokensSampled(
            trace_id=trace_id,
            prompt=prompt_name(packed),
            completion=pack_tokens(completion),
            new_prompt=packed,
            new_pieces={number: text.encode() for text, number in numbers.items()},
        ),
        RatiosMeasured(
            trace_id=trace_id,
            advantage=0.83,
            log_ratios=pack_float16(chance.gauss(0, 0.2) for is_sampled in is_sampled_T if is_sampled),
        ),
    )


def _pieces(message: Message) -> list[str]:
    calls = [f'<tool_call>\n{{"name": "{call.name}", "arguments": {call.arguments}}}' for call in message.tool_calls]
    text = "\n".join([f"<|im_start|>{message.role}", message.content, *calls]) + "<|im_end|>\n"
    return _TOKEN.findall(text)
