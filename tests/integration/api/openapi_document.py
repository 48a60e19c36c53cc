"""The OpenAPI document that requests are made up from."""

from copy import deepcopy
from typing import Any, cast

from rft.platform.app import create_app
from rft.platform.settings import Settings

DOCUMENT = create_app(
    Settings.model_validate({"home": "/nowhere", "DATABASE_URL": "postgresql:///nowhere"}), has_reconciler=False
).openapi()
_FEW = ("endpoint", "string_check")


def with_few_graders(document: dict[str, Any]) -> dict[str, Any]:
    """The same document, where only `POST /v1/graders` takes every kind of grader, and a multi grader holds two kinds.

    Eight operations take the same graders, and coverage makes 2,000 requests of them for each.
    """
    smaller = deepcopy(document)
    _keep_few(smaller)
    schemas = smaller["components"]["schemas"]
    schemas["AnyGraderCreate"] = deepcopy(document["components"]["schemas"]["GraderCreate"])
    body = smaller["paths"]["/v1/graders"]["post"]["requestBody"]["content"]["application/json"]
    body["schema"] = {"$ref": "#/components/schemas/AnyGraderCreate"}
    return smaller


def _keep_few(part: Any) -> None:
    match part:
        case {"oneOf": list(kinds), "discriminator": {"mapping": dict(mapping)}} if "string_check" in mapping:
            kept = [mapping[name] for name in _FEW]
            kinds[:] = [kind for kind in cast("list[dict[str, Any]]", kinds) if kind["$ref"] in kept]
            part["discriminator"]["mapping"] = {name: mapping[name] for name in _FEW}
        case dict():
            for inner in cast("dict[str, Any]", part).values():
                _keep_few(inner)
        case list():
            for inner in cast("list[Any]", part):
                _keep_few(inner)
        case _:
            pass
