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

from rft.core.hyperparameters import MAX_EVAL_SAMPLES, MAX_STALENESS, LossType, PolicyPin
from rft.core.update_spec import MAX_RESAMPLINGS
from rft.platform.api.wire import (
    MAX_ORDER_VALUES,
    OpenBody,
    PositiveSeconds,
    holds_only_text,
    must_be,
    refused_at,
)
from rft.platform.lifecycle.records import FILE_PARAMS
from rft.platform.orders.grader_schemas import Grader
from rft.platform.orders.references import GraderOrReference, ToolOrReference
from rft.platform.orders.response_format import ResponseFormatWanted
from rft.platform.orders.tool_schemas import Tool

MAX_SEED = 2**63 - 1
_FILE_PREFIX = "file-"
_AUTO = Literal["auto"]

GraderT = TypeVar("GraderT")
ToolT = TypeVar("ToolT")
ReinforcementT = TypeVar("ReinforcementT", bound=BaseModel)
MethodT = TypeVar("MethodT", bound=BaseModel)

Count: TypeAlias = Annotated[int, Field(ge=1, strict=True)]
Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
MaxImportanceGap: TypeAlias = Annotated[Positive, must_be("a number above 0")]


class Hyperparameters(OpenBody):
    """Contract section 1.2; every `auto` is resolved once the rows are counted."""

    n_epochs: Annotated[
        Annotated[int, Field(ge=1, le=50, strict=True)] | _AUTO, must_be("a whole number from 1 to 50, or 'auto'")
    ] = "auto"
    batch_size: Annotated[
        Annotated[int, Field(ge=1, le=256, strict=True)] | _AUTO, must_be("a whole number from 1 to 256, or 'auto'")
    ] = "auto"
    learning_rate_multiplier: Annotated[Positive | _AUTO, must_be("a number above 0, or 'auto'")] = "auto"
    compute_multiplier: Annotated[
        Annotated[float, Field(gt=1e-5, le=10, allow_inf_nan=False, strict=True)] | _AUTO,
        must_be("a number above 0.00001, 10 at most, or 'auto'"),
    ] = "auto"
    eval_interval: Annotated[Count | _AUTO, must_be("a whole number from 1, or 'auto'")] = "auto"
    eval_samples: Annotated[
        Annotated[int, Field(ge=1, le=MAX_EVAL_SAMPLES, strict=True)] | _AUTO,
        must_be(f"a whole number from 1 to {MAX_EVAL_SAMPLES}, or 'auto'"),
    ] = "auto"
    max_staleness: Annotated[
        Annotated[int, Field(ge=0, le=MAX_STALENESS, strict=True)] | _AUTO,
        must_be(f"a whole number from 0 to {MAX_STALENESS}, or 'auto'"),
    ] = 0
    """Steps by which the policy that samples may be behind the one that is updated; 0: they take turns."""
    policy_pin: PolicyPin = "rollout"
    """With `turn`, each turn of a rollout is sampled by the newest policy, and not by the one it began with."""
    reasoning_effort: Literal["default", "none", "minimal", "low", "medium", "high"] = "default"
    temperature: Annotated[
        Annotated[float, Field(ge=0.01, le=2, allow_inf_nan=False, strict=True)] | _AUTO,
        must_be("a number from 0.01 to 2, or 'auto'"),
    ] = "auto"
    """Ours, like the rest: the temperature that rollouts are sampled at."""
    beta: Annotated[
        Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)] | _AUTO,
        must_be("a number from 0, or 'auto'"),
    ] = "auto"
    """Weight of the KL divergence from the base model."""
    epsilon: Annotated[Positive | _AUTO, must_be("a number above 0, or 'auto'")] = "auto"
    """Clip range of importance weights below 1."""
    epsilon_high: Annotated[Positive | _AUTO, must_be("a number above 0, or 'auto'")] = "auto"
    """Clip range of importance weights above 1; with cispo the largest weight itself."""
    warmup_steps: Annotated[
        Annotated[int, Field(ge=0, strict=True)] | _AUTO, must_be("a whole number from 0, or 'auto'")
    ] = "auto"
    lr_scheduler_type: Literal["linear", "cosine", "constant", "auto"] = "auto"
    resample_zero_variance: Annotated[
        Annotated[int, Field(ge=0, le=MAX_RESAMPLINGS, strict=True)] | _AUTO,
        must_be(f"a whole number from 0 to {MAX_RESAMPLINGS}, or 'auto'"),
    ] = "auto"
    """Rounds of further rows in a step at most, in place of groups whose rewards are all equal."""


class BudgetsWanted(OpenBody):
    """Ours: what one rollout may use up."""

    max_tokens: Annotated[Count, must_be("a whole number from 1")] | None = None
    """Tokens the policy may sample over all turns."""
    max_reasoning_tokens: Annotated[Count, must_be("a whole number from 1")] | None = None
    """Of one turn's thoughts; longer ones are closed, and the model goes on with its answer."""
    deadline_s: PositiveSeconds | None = None
    max_context_tokens: (
        Annotated[Annotated[int, Field(ge=256, strict=True)], must_be("a whole number from 256")] | None
    ) = None
    """Prompt and completion at most; never more than the platform allows for the model."""


class LoraWanted(OpenBody):
    """Ours: the adapter's shape."""

    rank: (
        Annotated[Annotated[int, Field(ge=1, le=512, strict=True)], must_be("a whole number from 1 to 512")] | None
    ) = None
    alpha: Annotated[Count, must_be("a whole number from 1")] | None = None
    learning_rate: Annotated[Positive, must_be("a number above 0")] | None = None
    """What learning_rate_multiplier 1 means."""
    target_modules: (
        Annotated[
            Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=64)]
            | Literal["all-linear"],
            must_be("a list of 1 to 64 names of layers, or 'all-linear'"),
        ]
        | None
    ) = None
    """Layers that get an adapter, by the last part of their name."""


class EarlyStopWanted(OpenBody):
    """Ours: when a job may end before its last step. Each rule counts alone."""

    target_reward: Annotated[Annotated[float, Field(allow_inf_nan=False, strict=True)], must_be("a number")] | None = (
        None
    )
    """A mean validation reward of at least this."""
    plateau_evaluations: Annotated[Count, must_be("a whole number from 1")] | None = None
    """So many evaluations in a row without a better validation reward."""
    overfitting_evaluations: (
        Annotated[Annotated[int, Field(ge=2, strict=True)], must_be("a whole number from 2")] | None
    ) = None
    """So many evaluations in a row at which validation fell while training rose."""


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
        cap = self.hyperparameters.epsilon_high
        if self.loss_type == "cispo" and cap != "auto" and cap < 1:
            message = "must be 1 or more with loss_type 'cispo', where it is the largest weight of a token"
            raise refused_at(("hyperparameters", "epsilon_high"), message)
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
    types lack the field may name it in `metadata`."""
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

    @model_validator(mode="after")
    def _test_file_of_the_metadata(self) -> Self:
        named = (self.metadata or {}).get("test_file", "")
        if self.test_file is not None or not named.startswith(_FILE_PREFIX):
            return self
        return self.model_copy(update={"test_file": named})

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
        whole = ordered.model_copy(update={"hyperparameters": Hyperparameters.model_validate(given[0] | given[1])})
        method = self.method.model_copy(update={"reinforcement": whole})
        return self.model_copy(update={"method": method, "hyperparameters": None})


class JobOrder(JobCreateOf[MethodOrder]):
    """The order of a fine-tuning job as it comes in."""
