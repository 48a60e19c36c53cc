"""The text of a turn is told once, also where its process was lost in the middle and it is sampled again."""

from collections.abc import AsyncGenerator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rft.core.chat_spec import ChatSpec
from rft.core.messages import Message, Role
from rft.platform.api.errors import Unavailable
from rft.platform.serving.playground import playing as playing_module
from rft.platform.serving.playground.playing import Playing
from rft.platform.serving.playground.schemas import TextEvent
from rft.platform.serving.served_model import ServedModel
from rft.platform.serving.served_policy import ServedPolicy
from rft.rollouts.chat_policy import ChatRequest, ChatSampling, ChatTurn
from rft.serving_wire.records import Choice, Done, Event, Prompt, Text

REQUEST = ChatRequest((Message(role=Role.USER, content="How much?"),), (), ChatSampling(), "trace_1")


class Process:
    """Says these texts, of which all but the last are cut off by its end."""

    def __init__(self, *attempts: Sequence[str]) -> None:
        self.attempts = [*attempts]

    async def events(self, *asked: object) -> AsyncGenerator[Event]:
        del asked
        texts = self.attempts.pop(0)
        yield Prompt(prompt_tokens=3, remembered_tokens=0, is_rendered_again=False, token_ids=(1, 2, 3))
        for number, text in enumerate(texts):
            yield Text(index=0, text=text, completion_tokens=number)
        if self.attempts:
            raise Unavailable("The model's process ended in the middle of the answer; try again.", retry_after_s=0.001)
        yield Choice(
            index=0, finish_reason="stop", content="".join(texts), reasoning="", tool_calls=(), completion_tokens=5,
            reasoning_tokens=0, token_ids=(4,) * 5,
        )  # fmt: skip
        yield Done()


def uncounted(events: AsyncGenerator[Event], *rest: object) -> AsyncGenerator[Event]:
    del rest
    return events


@pytest.mark.parametrize(
    ("attempts", "told"),
    [
        ([["It", " is ", "42."]], ["It", " is ", "42."]),
        ([["It is "], ["It is ", "42."]], ["It is ", "42."]),
        ([["It", " is"], ["It is 4", "2."]], ["It", " is", " 4", "2."]),
        ([["It", " is", " 4"], ["I", "t i"], [], ["It is ", "42", "."]], ["It", " is", " 4", "2", "."]),
        ([["It is "], ["It", " was ", "42."]], ["It is ", "\n\nIt was ", "42."]),
        ([["It is "], ["It was "], ["It was 42."]], ["It is ", "\n\nIt was ", "42."]),
    ],
)
async def test_what_was_told_of_a_turn_is_not_told_again(
    monkeypatch: pytest.MonkeyPatch, attempts: list[list[str]], told: list[str]
) -> None:
    monkeypatch.setattr(playing_module, "events", Process(*attempts).events)
    monkeypatch.setattr(playing_module, "counted", uncounted)
    nobody = cast(Any, SimpleNamespace(name="tiny", model=None, processes=None))
    playing = Playing(nobody, nobody)
    sample = playing._sample  # pyright: ignore[reportPrivateUsage]
    turn = await ServedPolicy("tiny", ServedModel("/base", ChatSpec(), None), sample).complete(REQUEST)
    assert isinstance(turn, ChatTurn)
    assert turn.content == "".join(attempts[-1])
    queue = playing._told  # pyright: ignore[reportPrivateUsage]
    assert [queue.get_nowait() for _ in range(queue.qsize())] == [TextEvent(turn=0, text=text) for text in told]
