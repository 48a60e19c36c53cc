"""What is counted of an answer: the tokens of complete choices, and those that clients have read of others."""

from rft.platform.serving.told import ToldSoFar
from rft.serving_wire.records import Choice, Prompt, Text

PROMPT = Prompt(prompt_tokens=2, remembered_tokens=1, is_rendered_again=False, token_ids=(1, 2))
FIRST = Choice(
    index=0, finish_reason="stop", content="7", reasoning="", tool_calls=(), completion_tokens=5, reasoning_tokens=0,
    token_ids=(3,) * 5,
)  # fmt: skip


def test_an_answer_counts_as_far_as_it_was_told() -> None:
    told, counts = ToldSoFar(model="tiny"), list[int]()
    for event in (
        PROMPT,
        Text(index=0, text="7", completion_tokens=3),
        Text(index=1, text="It", completion_tokens=2),
        Text(index=1, text=" is", completion_tokens=4),
        FIRST,
    ):
        told.take(event)
        counts.append(told.tokens.completion_tokens)
    assert counts == [0, 3, 5, 7, 9]
