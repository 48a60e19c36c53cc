"""Fine-tuning jobs on the wire: what a customer orders."""

from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from rft.core.hyperparameters import LossType
from rft.platform.api.wire import MAX_ORDER_VALUES, OpenBody, holds_only_text, must_be, refused_at
from rft.platform.lifecycle.records import FILE_PARAMS
from rft.platform.orders.grader_schemas import Grader
from rft.platform.orders.hyperparameter_fields import (
    BudgetsWanted,
    EarlyStopWanted,
    Hyperparameters,
    LoraWanted,
    MaxImportanceGap,
)
from rft.platform.orders.references import GraderOrReference, ToolOrReference
from rft.platform.orders.response_format import ResponseFormatWanted
from rft.platform.orders.tool_schemas import Tool

MAX_SEED = 2**63 - 1
_FILE_PREFIX = "file-"

GraderT = TypeVar("GraderT")
ToolT = TypeVar("ToolT")
ReinforcementT = TypeVar("ReinforcementT", bound=BaseModel)
MethodT = TypeVar("MethodT", bound=BaseModel)


def _each_once(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise ValueError
    return names


_MOST_BASELINES = 8
Baselines: TypeAlias = Annotated[
    Annotated[
        list[Annotated[str, Field(min_length=1, max_length=512)]],
        Field(max_length=_MOST_BASELINES, json_schema_extra={"uniqueItems": True}),
        AfterValidator(_each_once),
    ],
    must_be(f"a list of up to {_MOST_BASELINES} names of models, each once"),
]


def _may_be_null(schema: dict[str, Any]) -> None:
    """Tells the document that hyperparameters of null are as good as none."""
    told = schema["properties"]["hyperparameters"]
    schema["properties"]["hyperparameters"] = {"anyOf": [{"$ref": told.pop("$ref")}, {"type": "null"}], **told}


def _refuse_cispo_below_one(loss_type: LossType | None, wanted: Hyperparameters) -> None:
    """Raises ValidationError, placed below the field that holds `hyperparameters`."""
    if loss_type == "cispo" and wanted.epsilon_high != "auto" and wanted.epsilon_high < 1:
        message = "must be 1 or more with loss_type 'cispo', where it is the largest weight of a token"
        raise refused_at(("hyperparameters", "epsilon_high"), message)


class ReinforcementOf(OpenBody, Generic[GraderT, ToolT]):
    """`method.reinforcement`, its grader and tools given in one way or another."""

    model_config = ConfigDict(json_schema_extra=_may_be_null)

    grader: GraderT
    tools: Annotated[list[ToolT], Field(max_length=128)] | None = None
    max_episode_steps: (
        Annotated[Annotated[int, Field(ge=1, le=10_000, strict=True)], must_be("a whole number from 1 to 10000")] | None
    ) = None
    """Tool calls one rollout may make. A call beyond it is answered "budget used up", then comes one last turn."""
    hyperparameters: Hyperparameters = Hyperparameters()
    response_format: ResponseFormatWanted | None = None
    """What answers must be; one that does not fit is graded 0, or `invalid_grade`."""
    budgets: BudgetsWanted | None = None
    loss_type: LossType | None = None
    """Ours: how token losses are weighed and normalised; `dapo` when absent."""
    lora: LoraWanted | None = None
    early_stop: EarlyStopWanted | None = None
    baselines: Baselines | None = None
    """Ours: models of ours, or `PROVIDER/MODEL`, that are measured once on the validation rows before the training."""
    max_importance_gap: MaxImportanceGap | None = None
    """Ours: mean difference of trainer and engine log-probabilities beyond which the job is paused before an update."""

    @field_validator("hyperparameters", mode="before")
    @classmethod
    def _absent_is_auto(cls, value: Any) -> Any:
        return {} if value is None else value

    @field_validator("tools", mode="after")
    @classmethod
    def _names_differ(cls, tools: list[ToolT] | None) -> list[ToolT] | None:
        names = [tool.name if isinstance(tool, Tool) else None for tool in tools or []]
        for index, name in enumerate(names):
            if name is not None and name in names[:index]:
                twice = PydanticCustomError(
                    "duplicate_tool", "tool names must differ; '{name}' appears twice", {"name": name}
                )
                # Raised this way it carries its own place in the list.
                raise ValidationError.from_exception_data(
                    "tools", [{"type": twice, "loc": (index, "name"), "input": name}]
                )
        return tools

    @model_validator(mode="after")
    def _cispo_has_no_cap_below_one(self) -> Self:
        _refuse_cispo_below_one(self.loss_type, self.hyperparameters)
        return self


class Reinforcement(ReinforcementOf[Grader, Tool]):
    """`method.reinforcement` with everything in it."""


class ReinforcementOrder(ReinforcementOf[GraderOrReference, ToolOrReference]):
    """`method.reinforcement` as it is ordered: grader and tools given in full, or by the id of a registered one."""


def _only_reinforcement(value: Any) -> Any:
    if value != "reinforcement":
        raise PydanticCustomError("unsupported_method", "must be 'reinforcement'; other methods are not offered here")
    return value


class MethodOf(OpenBody, Generic[ReinforcementT]):
    """How the model is to learn."""

    type: Annotated[Literal["reinforcement"], BeforeValidator(_only_reinforcement)]
    reinforcement: ReinforcementT


class Method(MethodOf[Reinforcement]):
    """How the model is to learn, with everything in it."""


class MethodOrder(MethodOf[ReinforcementOrder]):
    """How the model is to learn, as it is ordered."""


def _short_pairs(metadata: dict[str, str]) -> dict[str, str]:
    if len(metadata) > 16 or any(len(key) > 64 or len(value) > 512 for key, value in metadata.items()):
        raise PydanticCustomError("invalid_value", "16 pairs at most, keys of 64 and values of 512 characters at most")
    return metadata


_SHORT_PAIRS: JsonDict = {
    "maxProperties": 16,
    "propertyNames": {"maxLength": 64},
    "additionalProperties": {"type": "string", "maxLength": 512},
}
Metadata: TypeAlias = Annotated[
    dict[str, str],
    Field(json_schema_extra=_SHORT_PAIRS),
    must_be("an object of text keys and text values"),
    AfterValidator(_short_pairs),
]


class JobCreateOf(OpenBody, Generic[MethodT]):
    """The order of a fine-tuning job."""

    most_values: ClassVar[int] = MAX_ORDER_VALUES

    model: Annotated[Annotated[str, Field(min_length=1, max_length=512)], must_be("the name of a base model")]
    training_file: Annotated[str, must_be("the id of an uploaded file")]
    validation_file: Annotated[str, must_be("the id of an uploaded file")] | None = None
    test_file: Annotated[str, must_be("the id of an uploaded file")] | None = None
    """Ours. Rows that choose nothing: the untrained policy and the best checkpoint are measured on them. Clients whose
    types lack the field may name it in `metadata`, where it counts if it is such a file."""
    method: MethodT
    suffix: Annotated[Annotated[str, Field(max_length=64)], must_be("a text of 64 characters at most")] | None = None
    """An empty one counts as none."""
    seed: (
        Annotated[
            Annotated[int, Field(ge=0, le=MAX_SEED, strict=True)], must_be(f"a whole number from 0 to {MAX_SEED}")
        ]
        | None
    ) = None
    metadata: Metadata | None = None
    integrations: Annotated[list[JsonValue], must_be("a list")] | None = None
    """Kept and echoed; nothing is sent to them."""
    hyperparameters: Hyperparameters | None = None
    """Their old place. What `method` does not say itself is taken from here."""

    @model_validator(mode="before")
    @classmethod
    def _is_storable(cls, value: Any) -> Any:
        if isinstance(value, dict):
            for key, entry in value.items():
                if not holds_only_text(key) or not holds_only_text(entry):
                    raise refused_at((str(key),), "contains a NUL or half a surrogate pair, which cannot be stored")
        return value

    @property
    def test_file_of_the_metadata(self) -> str | None:
        """What may be meant for a test file, where the order names none in its field; metadata can mean anything."""
        named = (self.metadata or {}).get("test_file", "")
        return named if self.test_file is None and named.startswith(_FILE_PREFIX) else None

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """The files it names, each with its field."""
        given = ((param, getattr(self, param)) for param in FILE_PARAMS)
        return tuple((param, file_id) for param, file_id in given if file_id is not None)


class JobCreate(JobCreateOf[Method]):
    """The order of a fine-tuning job, with everything in it and in its place."""

    @model_validator(mode="after")
    def _hyperparameters_in_the_method(self) -> Self:
        if self.hyperparameters is None:
            return self
        ordered = self.method.reinforcement
        given = [part.model_dump(exclude_unset=True) for part in (self.hyperparameters, ordered.hyperparameters)]
        together = Hyperparameters.model_validate(given[0] | given[1])
        # Copies are not validated. What stands in the method itself was checked there: what is wrong now is from here.
        _refuse_cispo_below_one(ordered.loss_type, together)
        whole = ordered.model_copy(update={"hyperparameters": together})
        method = self.method.model_copy(update={"reinforcement": whole})
        return self.model_copy(update={"method": method, "hyperparameters": None})


class JobOrder(JobCreateOf[MethodOrder]):
    """The order of a fine-tuning job as it comes in."""
