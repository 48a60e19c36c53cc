"""What tests ask the scripted model of a platform."""

from typing import Any

from openai import AsyncOpenAI, InternalServerError
from openai.types.chat import ChatCompletionChunk

from tests.shared.scripted_engine import ANSWER, ENDLESS
from tests.shared.served_models import ServedPlatform, serving_pid


def pid(platform: ServedPlatform) -> int:
    """Of the one serving process."""
    found = serving_pid(platform)
    assert found is not None
    return found


async def ask(client: AsyncOpenAI, text: str = "How much?", *, model: str = "tiny") -> str:
    done = await client.chat.completions.create(model=model, messages=[{"role": "user", "content": text}])
    return done.choices[0].message.content or ""


async def endless(client: AsyncOpenAI) -> tuple[Any, str]:
    """A stream that has told everything it ever will, and that."""
    stream = await client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": ENDLESS}], stream=True
    )
    told = ""
    while len(told) < len(ANSWER) - 1:
        chunk: ChatCompletionChunk = await anext(stream)
        told += chunk.choices[0].delta.content or ""
    return stream, told


async def is_answered(client: AsyncOpenAI, model: str = "tiny") -> bool:
    """Whether there is room for a request; refused in any other way, the test fails."""
    try:
        return await ask(client, model=model) == ANSWER
    except InternalServerError as error:
        if error.code not in ("serving_busy", "serving_slots_in_use"):
            raise
        return False
