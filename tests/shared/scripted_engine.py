"""An engine for serving processes in tests: what it writes follows from the prompt alone.

Named as `tests.shared.scripted_engine:scripted_engine`; the process needs the repository on its `PYTHONPATH`.
"""

import asyncio
from pathlib import Path

from rft.chat.template_format import TemplateChatFormat
from rft.core.spec import RunSpec
from rft.rollouts.sampler import Sample, SampleRequest
from rft.testing.samplers import tool_call_text
from tests.shared.telling_sampler import TellingSampler

ANSWER = "The answer is 7, they say."
ENDLESS = "Wait for ever"
"""A question whose answer begins and never ends."""
SEARCHES = "Search"
"""A question that is answered after two turns of calls: one of them cannot be read, two are parallel."""
THINKS = "Think"
"""In a question: there is a thought in front of every turn."""
_CALLS = tuple(tool_call_text("search", f'{{"query":   "{query}"}}') for query in ("one", "two", "three"))
_TURNS = (f"I look. {_CALLS[0]}{_CALLS[1]}", f"<tool_call>{{broken</tool_call>{_CALLS[2]}", ANSWER)


def script(prompt: str) -> str:
    """The next turn."""
    turn = _TURNS[min(prompt.count("<|im_start|>assistant") - 1, 2)] if SEARCHES in prompt else ANSWER
    return f"<think>So be it.</think>\n{turn}" if THINKS in prompt else turn


class ScriptedEngine(TellingSampler):
    """Some of its answers never end."""

    async def sample(self, request: SampleRequest) -> Sample:
        sample = await super().sample(request)
        if ENDLESS in self._tokenizer.decode(request.prompt_ids):
            await asyncio.Event().wait()
        return sample


def scripted_engine(base_model_dir: Path, spec: RunSpec, chat_format: TemplateChatFormat) -> ScriptedEngine:
    """What the setting names."""
    del base_model_dir, spec
    return ScriptedEngine(chat_format.tokenizer, lambda _, prompt: script(prompt))
