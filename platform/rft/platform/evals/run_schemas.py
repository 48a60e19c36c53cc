"""Runs of evals on the wire: what is ordered, as the official SDK types it."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, JsonValue, TypeAdapter, model_validator
from pydantic_core import PydanticCustomError

from rft.grader_gateway.templates import TemplateError, variables_of
from rft.platform.api.tagged import tagged
from rft.platform.api.wire import OpenBody, TextBody, must_be
from rft.platform.evals.item_variables import item_path
from rft.platform.evals.schemas import Name
from rft.platform.orders.judge_fields import Input, InputMessage, text_of
from rft.platform.orders.message_parts import refuse_long_texts
from rft.platform.orders.response_format import ResponseFormatWanted
from rft.platform.orders.schemas import Metadata

MAX_SAMPLES = 128
MAX_TOOLS = 128
_NOT_KEPT = (
    "what the hosted service has stored is not kept here; bring the items by 'file_id' or 'file_content', as its"
    " export has them"
)
_EARLIER = "max_completions_tokens"
_Object: TypeAlias = Annotated[dict[str, JsonValue], must_be("an object")]


class ContentRow(OpenBody):
    """One item, and perhaps what a model made of it."""

    item: _Object
    sample: _Object | None = None


class FileContent(OpenBody):
    """Items inline."""

    type: Literal["file_content"]
    content: Annotated[list[ContentRow], Field(min_length=1, fail_fast=True)]


class FileId(OpenBody):
    """Items of an uploaded file: a line is `{"item": {...}}`, with or without a `sample`."""

    type: Literal["file_id"]
    id: Annotated[str, must_be("the id of an uploaded file")]


Source: TypeAlias = Annotated[
    Annotated[FileContent | FileId, Discriminator("type")],
    tagged(FileContent, FileId, refused={"stored_completions": _NOT_KEPT, "responses": _NOT_KEPT, "logs": _NOT_KEPT}),
]


def _names_items_only(messages: list[InputMessage]) -> list[InputMessage]:
    for message in messages:
        if any(variable.namespace == "sample" for variable in variables_of(text_of(message.content))):
            raise PydanticCustomError("invalid_value", "may name what is in the item; there is no sample yet")
    return messages


class MessageTemplate(OpenBody):
    """Messages that each item fills in."""

    type: Literal["template"]
    template: Annotated[Input, BeforeValidator(refuse_long_texts), AfterValidator(_names_items_only)]


def _is_item_path(reference: str) -> str:
    try:
        item_path(reference)
    except TemplateError as error:
        raise PydanticCustomError("invalid_value", "{problem}", {"problem": str(error)}) from error
    return reference


class ItemReference(OpenBody):
    """Messages that each item brings, under this name."""

    type: Literal["item_reference"]
    item_reference: Annotated[str, must_be("a name like item.messages"), AfterValidator(_is_item_path)]


InputMessages: TypeAlias = Annotated[
    Annotated[MessageTemplate | ItemReference, Discriminator("type")], tagged(MessageTemplate, ItemReference)
]


class TextWanted(OpenBody):
    """How responses say what their text must be."""

    format: ResponseFormatWanted | None = None


class SamplingParams(OpenBody):
    """How the model samples; what is absent is left to it, but for the tokens of a sample."""

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
    max_completion_tokens: (
        Annotated[Annotated[int, Field(ge=1, strict=True)], must_be("a whole number from 1")] | None
    ) = None
    """Of one sample, all its turns together; `RFT_ROLLOUT_MAX_TOKENS` where it is absent."""
    seed: (
        Annotated[Annotated[int, Field(ge=-(2**63), lt=2**63, strict=True)], must_be("a whole number of 64 bits")]
        | None
    ) = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    tools: Annotated[list[_Object], Field(max_length=MAX_TOOLS)] | None = None
    """Functions. Those with a `server_url`, and registered ones, are really called."""
    n: Annotated[Annotated[int, Field(ge=1, le=MAX_SAMPLES, strict=True)], must_be(f"1 to {MAX_SAMPLES}")] | None = None
    """Ours: samples of each item."""
    response_format: ResponseFormatWanted | None = None
    """Of completions."""
    text: TextWanted | None = None
    """Of responses."""

    @model_validator(mode="before")
    @classmethod
    def _earlier_spelling(cls, value: Any) -> Any:
        """Runs of 2025 say `max_completions_tokens`, as model graders still do."""
        if not isinstance(value, dict) or _EARLIER not in value:
            return value
        rest = {key: entry for key, entry in value.items() if key != _EARLIER}
        return {"max_completion_tokens": value[_EARLIER], **rest}

    @property
    def wanted_format(self) -> dict[str, JsonValue] | None:
        """What answers must be, wherever it is said."""
        return self.response_format or (None if self.text is None else self.text.format)

    @property
    def format_param(self) -> str:
        """Where that is said."""
        return "response_format" if self.response_format else "text.format"


class JsonlSource(OpenBody):
    """Items, with the samples they bring."""

    type: Literal["jsonl"]
    source: Source


class SampledSource(OpenBody):
    """Items that a model answers; without `model` and `input_messages`, with the samples they bring."""

    source: Source
    input_messages: InputMessages | None = None
    model: Annotated[Annotated[str, Field(min_length=1, max_length=512)], must_be("the name of a model")] | None = None
    sampling_params: SamplingParams | None = None


class CompletionsSource(SampledSource):
    """As chat completions."""

    type: Literal["completions"]


class ResponsesSource(SampledSource):
    """As responses."""

    type: Literal["responses"]


DataSource: TypeAlias = Annotated[
    Annotated[JsonlSource | CompletionsSource | ResponsesSource, Discriminator("type")],
    tagged(JsonlSource, CompletionsSource, ResponsesSource),
]
DATA_SOURCE = TypeAdapter[JsonlSource | CompletionsSource | ResponsesSource](DataSource)


class RunCreate(TextBody):
    """Hold items against an eval's criteria."""

    data_source: DataSource
    name: Name | None = None
    """The run's id when absent."""
    metadata: Metadata | None = None
    samples_per_row: (
        Annotated[Annotated[int, Field(ge=1, le=MAX_SAMPLES, strict=True)], must_be(f"1 to {MAX_SAMPLES}")] | None
    ) = None
    """Ours: samples of each item; 1 when absent. The same as `n` among the sampling parameters."""
