"""What of an order is stored in the clear: everything but header values."""

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.spec import RunSecrets
from rft.platform.jobs.schemas import JobCreate, Method
from rft.platform.tools.fields import MASK


def masked(value: JsonValue) -> JsonValue:
    """The same document with the values of every `headers` object blotted out, however deep it lies."""
    match value:
        case dict():
            return {key: _masked_headers(entry) if key == "headers" else masked(entry) for key, entry in value.items()}
        case list():
            return [masked(entry) for entry in value]
        case _:
            return value


def _masked_headers(headers: JsonValue) -> JsonValue:
    return dict.fromkeys(headers, MASK) if isinstance(headers, dict) else masked(headers)


def masked_method(method: Method) -> JsonObject:
    """The method as the customer wrote it, masked; hyperparameters and response_format filled with their defaults."""
    written = method.model_dump(mode="json", exclude_unset=True)
    reinforcement = written["reinforcement"]
    reinforcement["hyperparameters"] = method.reinforcement.hyperparameters.model_dump(mode="json")
    reinforcement.setdefault("response_format", None)
    document = masked(written)
    assert isinstance(document, dict), "masking keeps the shape"
    return document


def masked_request(body: JobCreate) -> JsonObject:
    """The whole order, masked."""
    document = masked(body.model_dump(mode="json", exclude_unset=True))
    assert isinstance(document, dict), "masking keeps the shape"
    return document


def secrets_of(method: Method) -> RunSecrets:
    """The header values, to be sealed."""
    reinforcement = method.reinforcement
    return RunSecrets(
        tool_headers={tool.name: tool.headers for tool in reinforcement.tools or [] if tool.headers},
        grader_headers=reinforcement.grader.headers or {},
    )
