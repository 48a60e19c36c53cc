"""Evals on the wire: what is ordered and what is shown, as the official SDK types it."""

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, JsonValue
from pydantic_core import PydanticCustomError

from rft.core.base import JsonObject
from rft.core.json_schema import schema_problem
from rft.platform.api.pagination import Listed
from rft.platform.api.tagged import tagged
from rft.platform.api.wire import MAX_ORDER_VALUES, OpenBody, TextBody, UnixTime, must_be
from rft.platform.evals.criteria import Criterion
from rft.platform.orders.message_parts import refuse_long_texts
from rft.platform.orders.schemas import Metadata
from rft.platform.store.stored_json import StoredJson

MAX_CRITERIA = 64
OTHER_NAMES = {
    "threshold": "pass_threshold",
    "max_tokens": "max_completion_tokens",
    "max_output_tokens": "max_completion_tokens",
    "samples": "samples_per_row",
}
"""Fields of evals and runs as other services call them."""
Name: TypeAlias = Annotated[
    Annotated[str, Field(min_length=1, max_length=512)], must_be("a text of 1 to 512 characters")
]


def _checked_schema(schema: JsonObject) -> JsonObject:
    problem = schema_problem(schema)
    if problem is None and schema.get("type", "object") not in ("object", ["object"]):
        problem = "must describe an object (`type`: 'object'): an item is one"
    if problem is not None:
        raise PydanticCustomError("invalid_value", "{problem}", {"problem": problem})
    return schema


class CustomConfig(OpenBody):
    """Items of the customer's own."""

    type: Literal["custom"]
    item_schema: Annotated[dict[str, JsonValue], must_be("a JSON Schema of an object"), AfterValidator(_checked_schema)]
    """What every item of a run must fit; templates may name what it lists."""
    include_sample_schema: Annotated[bool, Field(strict=True)] = False
    """Whether runs bring or make samples; shown in `schema`."""


class LogsConfig(OpenBody):
    """Logs of the hosted service, which are not kept here: runs bring their items by file or inline."""

    type: Literal["logs"]
    metadata: Annotated[dict[str, JsonValue], must_be("an object")] | None = None


class StoredCompletionsConfig(OpenBody):
    """The earlier name of logs."""

    type: Literal["stored_completions"]
    metadata: Annotated[dict[str, JsonValue], must_be("an object")] | None = None


DataSourceConfig: TypeAlias = Annotated[
    Annotated[CustomConfig | LogsConfig | StoredCompletionsConfig, Discriminator("type")],
    tagged(CustomConfig, LogsConfig, StoredCompletionsConfig),
]


class EvalCreate(TextBody):
    """Which data is graded how."""

    most_values: ClassVar[int] = MAX_ORDER_VALUES

    data_source_config: DataSourceConfig
    testing_criteria: Annotated[
        list[Criterion], Field(min_length=1, max_length=MAX_CRITERIA), BeforeValidator(refuse_long_texts)
    ]
    """All of them must pass for an output item to pass."""
    name: Name | None = None
    """The eval's id when absent."""
    metadata: Metadata | None = None


class EvalUpdate(TextBody):
    """What of an eval may change; what is absent stays."""

    name: Name | None = None
    metadata: Metadata | None = None


class DataSourceConfigObject(BaseModel):
    """As the contract shows it: the schema of what templates may name."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    type: Literal["custom", "logs", "stored_completions"]
    schema_: Annotated[StoredJson, Field(alias="schema")]
    metadata: StoredJson | None = None


class EvalObject(Listed):
    """An eval as it is shown."""

    object: Literal["eval"] = "eval"
    created_at: UnixTime
    name: str
    data_source_config: DataSourceConfigObject
    testing_criteria: list[StoredJson]
    """As ordered, each with an `id`; header values redacted."""
    metadata: dict[str, str] | None


class EvalDeleted(BaseModel):
    """It is gone, with its runs and their output items."""

    object: Literal["eval.deleted"] = "eval.deleted"
    eval_id: str
    deleted: Literal[True] = True


def shown_config(config: CustomConfig | LogsConfig | StoredCompletionsConfig) -> JsonObject:
    """The configuration as the contract answers it."""
    has_sample = not isinstance(config, CustomConfig) or config.include_sample_schema
    item: JsonObject = config.item_schema if isinstance(config, CustomConfig) else {"type": "object"}
    schema: JsonObject = {
        "type": "object",
        "properties": {"item": item, **({"sample": SAMPLE_SCHEMA} if has_sample else {})},
        "required": ["item", "sample"] if has_sample else ["item"],
    }
    if isinstance(config, CustomConfig):
        return {"type": config.type, "schema": schema}
    return {"type": config.type, "schema": schema, "metadata": config.metadata}


def item_schema_of(shown: JsonObject) -> JsonObject:
    """The schema of items, out of a configuration as it is shown."""
    document: Any = shown
    return document["schema"]["properties"]["item"]


_TEXT: JsonObject = {"type": ["string", "null"]}
SAMPLE_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "model": {"type": "string"},
        "choices": {"type": "array"},
        "output_text": _TEXT,
        "output_json": {},
        "output_tools": {"type": "array"},
        "finish_reason": _TEXT,
        "input_tools": {"type": "array"},
    },
    "required": ["model", "choices"],
}
"""What templates find in a sample."""
