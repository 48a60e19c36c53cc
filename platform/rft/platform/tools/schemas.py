"""Tools on the wire: `method.reinforcement.tools[]`."""

from typing import Annotated, Any

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from rft.platform.api.wire import OpenBody, PositiveSeconds, must_be
from rft.platform.tools.fields import EndpointUrl, Headers


class Tool(OpenBody):
    """Where one tool lives. Its description comes with the dataset's rows."""

    name: Annotated[
        Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")],
        must_be("1 to 64 letters, digits, underscores and dashes"),
    ]
    server_url: EndpointUrl
    """Calls are POSTed here. `url` is accepted as another name of this field."""
    headers: Headers | None = None
    """Sent with every call; values are shown masked."""
    timeout_s: PositiveSeconds | None = None
    """Ours: deadline of one attempt."""
    max_output_chars: Annotated[int, Field(ge=1, strict=True)] | None = None
    """Ours: longer outputs are cut before the model reads them."""

    @model_validator(mode="before")
    @classmethod
    def _accept_url(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "url" not in value:
            return value
        if value.get("server_url", value["url"]) != value["url"]:
            raise PydanticCustomError("invalid_value", "url and server_url name two different addresses")
        return {**value, "server_url": value["url"]}
