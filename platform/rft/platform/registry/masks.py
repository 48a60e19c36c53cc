"""Registered bodies at rest: shown with masked header values, sealed whole."""

import json
from typing import cast

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.platform.api.errors import ApiError, BadRequest
from rft.platform.jobs.masking import masked
from rft.platform.registry.repository import Registration
from rft.platform.store.secret_box import SecretBox, SecretsUnreadable
from rft.platform.tools.fields import MASK


def shown_body(body: JsonObject) -> JsonObject:
    """What may be stored in the clear and shown; a tool's JSON Schema is no secret, whatever its properties' names."""
    shown = cast("JsonObject", masked(body))
    return {**shown, "parameters": body["parameters"]} if "parameters" in body else shown


def sealed_body(body: JsonObject, box: SecretBox) -> bytes:
    """The body, header values and all."""
    return box.seal_text(json.dumps(body))


def whole_body(registration: Registration, box: SecretBox) -> JsonObject:
    """What was sealed. Raises ApiError where the key is lost."""
    try:
        return cast("JsonObject", json.loads(box.unseal_text(registration.sealed)))
    except SecretsUnreadable as error:
        words = f"The secrets of {registration.id} cannot be read ({error}); register it anew."
        raise ApiError(words, code="secrets_unreadable") from error


def unmasked(new: JsonValue, stored: JsonValue) -> JsonValue:
    """`new` with the stored value wherever it repeats a header's mask, as a reply shown and sent back does."""
    match new, stored:
        case dict(), dict():
            return {
                key: _unmasked_headers(value, stored.get(key)) if key == "headers" else unmasked(value, stored.get(key))
                for key, value in new.items()
            }
        case list(), list() if len(new) == len(stored):
            return [unmasked(value, other) for value, other in zip(new, stored, strict=True)]
        case _:
            return new


def _unmasked_headers(new: JsonValue, stored: JsonValue) -> JsonValue:
    if not isinstance(new, dict) or not isinstance(stored, dict):
        return new
    return {name: stored.get(name, value) if value == MASK else value for name, value in new.items()}


def refuse_masks(body: JsonValue, param: str = "") -> None:
    """Raises BadRequest for a header whose value is the mask: somebody sends back what a reply showed."""
    path = _path_of_mask(body, param)
    if path is not None:
        words = f"Invalid '{path}': this is the mask that stands for a secret in replies, not the secret."
        raise BadRequest(words, param=path, code="invalid_value")


def _path_of_mask(body: JsonValue, path: str) -> str | None:
    match body:
        case dict():
            for key, value in body.items():
                here = f"{path}.{key}" if path else key
                if key == "headers" and isinstance(value, dict) and MASK in value.values():
                    return here
                if (found := _path_of_mask(value, here)) is not None:
                    return found
        case list():
            for index, value in enumerate(body):
                if (found := _path_of_mask(value, f"{path}[{index}]")) is not None:
                    return found
        case _:
            pass
    return None
