"""Tools on the wire: `method.reinforcement.tools[]`, and what the registry keeps of one."""

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from rft.core.base import JsonObject
from rft.core.json_schema import parameters_problem
from rft.platform.api.wire import MAX_ORDER_VALUES, OpenBody, PositiveSeconds, must_be
from rft.platform.orders.tool_fields import EndpointUrl, Headers, either_url, with_server_url

NO_PARAMETERS: JsonObject = {"type": "object", "properties": {}}
"""What a described tool without `parameters` takes: nothing."""


def _checked_parameters(parameters: JsonObject) -> JsonObject:
    """As a dataset row's: a JSON Schema of an object, whole in itself."""
    problem = parameters_problem(parameters)
    if problem is not None:
        raise PydanticCustomError("invalid_value", "{problem}", {"problem": problem})
    return parameters


Parameters: TypeAlias = Annotated[
    dict[str, JsonValue], must_be("a JSON Schema object"), AfterValidator(_checked_parameters)
]


class Tool(OpenBody):
    """Where one tool lives. Its description comes with the dataset's rows, or from here for rows without tools."""

    model_config = ConfigDict(json_schema_extra=either_url)
    most_values: ClassVar[int] = MAX_ORDER_VALUES

    id: Annotated[str, must_be("a text")] | None = None
    """Of a registered tool: which one this is a copy of."""
    name: Annotated[
        Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")],
        must_be("1 to 64 letters, digits, underscores and dashes"),
    ]
    server_url: EndpointUrl
    """Calls are POSTed here. `url` is accepted as another name of this field."""
    headers: Headers | None = None
    """Sent with every call; values are shown redacted."""
    timeout_s: PositiveSeconds | None = None
    """Ours: deadline of one attempt."""
    max_output_chars: Annotated[int, Field(ge=1, strict=True)] | None = None
    """Ours: longer outputs are cut before the model reads them."""
    max_concurrency: Annotated[Annotated[int, Field(ge=1, strict=True)], must_be("a whole number from 1")] | None = None
    """Ours: calls in flight at most."""
    rate_limit: (
        Annotated[Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)], must_be("a number above 0")] | None
    ) = None
    """Ours: calls started per second at most."""
    retry: Literal["safe", "unsafe"] | None = None
    """Ours: whether a call that may have arrived may be sent again; `safe` when absent."""
    callback_url: EndpointUrl | None = None
    """Ours: where `rollout.started` and `rollout.ended` are POSTed, with the tool's headers."""
    description: Annotated[str, must_be("a text")] | None = None
    """Ours: what the tool does, for the model to read."""
    parameters: Parameters | None = None
    """Ours: JSON Schema of the arguments."""

    @property
    def has_schema(self) -> bool:
        """Whether rows that bring no tools of their own can be given this one."""
        return self.parameters is not None or self.description is not None

    @model_validator(mode="before")
    @classmethod
    def _accept_url(cls, value: Any) -> Any:
        return with_server_url(value)
