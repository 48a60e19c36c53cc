"""An order's references replaced by what they name: copies, so that later edits change no job."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from rft.core.base import JsonObject
from rft.platform.api.error_handlers import to_bad_request
from rft.platform.api.errors import BadRequest
from rft.platform.orders.grader_schemas import Grader
from rft.platform.orders.references import GraderReference, ToolReference
from rft.platform.orders.schemas import JobCreate, JobOrder, MethodOrder
from rft.platform.registry.redaction import refuse_redacted, whole_body
from rft.platform.registry.repository import Registration, RegistrationRepository, Use
from rft.platform.registry.schemas import GraderCreate
from rft.platform.store.secret_box import SecretBox

_ModelT = TypeVar("_ModelT", bound=BaseModel)
_TOOLS = "method.reinforcement.tools"
_GRADER = "method.reinforcement.grader"


@dataclass(frozen=True, slots=True)
class Resolved:
    """An order with everything in it."""

    order: JobCreate
    uses: list[Use] = field(default_factory=list[Use])


async def resolve_order(connection: AsyncConnection[TupleRow], box: SecretBox, order: JobOrder) -> Resolved:
    """The order with copies of its registered tools and grader. Raises BadRequest for what is not registered."""
    named = await _registrations(connection, order.method)
    document: JsonObject = order.model_dump(mode="json", exclude_unset=True)
    reinforcement = cast("JsonObject", cast("JsonObject", document["method"])["reinforcement"])
    uses: list[Use] = []
    tools = order.method.reinforcement.tools
    if tools is not None:
        written = cast("list[JsonValue]", reinforcement["tools"])
        reinforcement["tools"] = [
            _copied(tool, written[index], named, box, uses, f"{_TOOLS}[{index}]") for index, tool in enumerate(tools)
        ]
    grader = order.method.reinforcement.grader
    reinforcement["grader"] = _copied(grader, reinforcement["grader"], named, box, uses, _GRADER)
    return Resolved(validated(JobCreate, document), uses)


async def resolve_grader(
    connection: AsyncConnection[TupleRow], box: SecretBox, grader: Grader | GraderReference, *, param: str
) -> Grader:
    """The grader, or a copy of the registered one that it names. Raises BadRequest for what is not registered."""
    named = await RegistrationRepository(connection).among([grader.id]) if isinstance(grader, GraderReference) else {}
    written: JsonObject = grader.model_dump(mode="json", exclude_unset=True)
    whole = _copied(grader, written, named, box, [], param)
    return validated(GraderCreate, {"grader": whole}).grader


def validated(model: type[_ModelT], document: JsonObject) -> _ModelT:
    """A body that did not come in as one. Raises BadRequest as if it had."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise bad_body(error.errors(include_url=False), document) from error


def bad_body(errors: Sequence[ErrorDetails], document: JsonObject) -> BadRequest:
    """The reply to a body with these problems."""
    placed = [cast("ErrorDetails", {**problem, "loc": ("body", *problem["loc"])}) for problem in errors]
    return to_bad_request(placed, document)


async def _registrations(connection: AsyncConnection[TupleRow], method: MethodOrder) -> dict[str, Registration]:
    parts = [*(method.reinforcement.tools or []), method.reinforcement.grader]
    ids = [part.id for part in parts if isinstance(part, ToolReference | GraderReference)]
    return await RegistrationRepository(connection).among(ids) if ids else {}


def _copied(
    part: BaseModel,
    written: JsonValue,
    named: dict[str, Registration],
    box: SecretBox,
    uses: list[Use],
    param: str,
) -> JsonValue:
    if not isinstance(part, ToolReference | GraderReference):
        refuse_redacted(written, param)
        return written
    kind = "tool" if isinstance(part, ToolReference) else "grader"
    found = named.get(part.id)
    if found is None or found.kind != kind:
        raise BadRequest(f"There is no registered {kind} '{part.id}'.", param=f"{param}.id", code=f"{kind}_not_found")
    body = whole_body(found, box)
    uses += [Use(registration_id=part.id, endpoint=name) for name in _calling_names(body)]
    return {**body, "id": part.id}


def _calling_names(body: JsonObject) -> list[str]:
    """The names that its calls go by in the ledger: a multi grader's parts call under their variables."""
    parts = body.get("graders") if body.get("type") == "multi" else None
    return list(parts) if isinstance(parts, dict) else [str(body["name"])]
