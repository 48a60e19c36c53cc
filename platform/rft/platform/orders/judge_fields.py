"""What model graders have in common on the wire: messages to the judge, and how it samples."""

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from rft.core.graders import JudgeMessage, SamplingParams
from rft.grader_gateway.templates import template_problem
from rft.platform.api.wire import OpenBody, must_be, refuse_unless

_CONTENT = "a text or blocks of type 'input_text'; images and audio are not judged here"


class TextBlock(OpenBody):
    """One block of a message's content."""

    type: Literal["input_text", "output_text", "text"]
    text: str


Content: TypeAlias = str | TextBlock | list[str | TextBlock]


def text_of(content: Content) -> str:
    """The content as one text."""
    match content:
        case str():
            return content
        case TextBlock():
            return content.text
        case _:
            return "\n".join(text_of(part) for part in content)


def _checked_content(content: Content) -> Content:
    # All of it, too: braces that one part leaves open may be closed by the next.
    parts = [*content, content] if isinstance(content, list) else [content]
    for part in parts:
        problem = template_problem(text_of(part))
        if problem is not None:
            raise PydanticCustomError("invalid_value", "{problem}", {"problem": problem})
    return content


class InputMessage(OpenBody):
    """One message to the judge."""

    role: Literal["user", "assistant", "system", "developer"]
    content: Annotated[Content, must_be(_CONTENT), AfterValidator(_checked_content)]
    """May hold template strings."""
    type: Literal["message"] | None = None


class SamplingWanted(OpenBody):
    """How the judge samples; what is absent is left to the judge's server."""

    temperature: (
        Annotated[
            Annotated[float, Field(ge=0, le=2, allow_inf_nan=False, strict=True)], must_be("a number from 0 to 2")
        ]
        | None
    ) = None
    top_p: (
        Annotated[
            Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, strict=True)], must_be("a number from 0 to 1")
        ]
        | None
    ) = None
    seed: Annotated[Annotated[int, Field(strict=True)], must_be("a whole number")] | None = None
    max_completions_tokens: (
        Annotated[Annotated[int, Field(ge=1, strict=True)], must_be("a whole number from 1")] | None
    ) = None
    """Spelled as the contract spells it."""
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None


Template: TypeAlias = Annotated[str, must_be("a text"), AfterValidator(refuse_unless(template_problem))]
JudgeModel: TypeAlias = Annotated[
    Annotated[str, Field(min_length=1, max_length=512)], must_be("the name of a model of the judge's server")
]
Input: TypeAlias = Annotated[list[InputMessage], Field(min_length=1, max_length=64)]


def to_judge_messages(messages: list[InputMessage]) -> tuple[JudgeMessage, ...]:
    """As a run is told of them."""
    return tuple(JudgeMessage(role=message.role, content=text_of(message.content)) for message in messages)


def to_sampling_params(wanted: SamplingWanted | None) -> SamplingParams:
    """As a run is told of them."""
    if wanted is None:
        return SamplingParams()
    return SamplingParams(
        temperature=wanted.temperature,
        top_p=wanted.top_p,
        seed=wanted.seed,
        max_completion_tokens=wanted.max_completions_tokens,
        reasoning_effort=wanted.reasoning_effort,
    )
