"""Unions whose member a field `type` names, as bodies have them."""

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

from rft.platform.api.wire import refused_at


def tagged(*kinds: type[BaseModel], refused: Mapping[str, str] | None = None) -> WrapValidator:
    """Validates as the kind that `type` names, so that an error's path holds the customer's names only.

    `refused`: what is said of types that exist elsewhere.
    """
    by_type = {str(get_args(kind.model_fields["type"].annotation)[0]): kind for kind in kinds}

    def check(value: Any, inner: ValidatorFunctionWrapHandler) -> Any:
        if isinstance(value, kinds):
            return value
        if not isinstance(value, dict):
            raise PydanticCustomError("invalid_value", "must be an object with a type")
        if "type" not in value:
            raise ValidationError.from_exception_data("tagged", [{"type": "missing", "loc": ("type",), "input": value}])
        kind = by_type.get(value["type"]) if isinstance(value["type"], str) else None
        if kind is None:
            message = (refused or {}).get(str(value["type"])) or f"must be one of {', '.join(map(repr, by_type))}"
            raise refused_at(("type",), message)
        return kind.model_validate(value)

    return WrapValidator(check)
