"""Registered bodies at rest: shown with redacted secrets, sealed whole."""

import json
from typing import cast

from pydantic import JsonValue

from rft.core.base import JsonObject
from rft.core.secret_urls import REDACTED, has_redacted, is_url_field, redact_url, restore_url
from rft.egress.urls import BadUrl, parse_url
from rft.platform.api.errors import ApiError, BadRequest
from rft.platform.orders.redaction import is_secret, redacted, redacted_paths
from rft.platform.registry.repository import Registration
from rft.platform.store.secret_box import SecretBox, SecretsUnreadable

_ADDRESSES = ("server_url", "url", "callback_url")


def shown_body(body: JsonObject) -> JsonObject:
    """What may be stored in the clear and shown; a tool's JSON Schema is no secret, whatever its properties' names."""
    shown = cast("JsonObject", redacted(body))
    return {**shown, "parameters": body["parameters"]} if "parameters" in body else shown


def sealed_body(body: JsonObject, box: SecretBox) -> bytes:
    """The body, header values and all."""
    return box.seal_text(json.dumps(body))


def whole_body(registration: Registration, box: SecretBox) -> JsonObject:
    """What was sealed. Raises ApiError where the key is lost."""
    try:
        return cast("JsonObject", json.loads(box.unseal_text(registration.sealed)))
    except SecretsUnreadable as error:
        message = f"The secrets of {registration.id} cannot be read ({error}); register it anew."
        raise ApiError(message, code="secrets_unreadable") from error


def with_stored_secrets(new: JsonValue, stored: JsonValue, within: str = "") -> JsonValue:
    """`new` with the stored value wherever it repeats a redacted secret, as a reply shown and sent back does."""
    match new, stored:
        case dict(), dict():
            return {key: _whole(key, value, stored, within) for key, value in new.items()}
        case list(), list() if len(new) == len(stored):
            return [with_stored_secrets(value, other) for value, other in zip(new, stored, strict=True)]
        case _:
            return new


def _whole(key: str, new: JsonValue, stored: JsonObject, within: str) -> JsonValue:
    if is_secret(key, new, within):
        return _refilled(new, stored.get(key))
    if isinstance(new, str) and is_url_field(key):
        known = _stored_url(key, stored)
        return new if known is None else restore_url(new, known)
    return with_stored_secrets(new, stored.get(key), key)


def _stored_url(key: str, stored: JsonObject) -> str | None:
    """What is stored under this name, or under the other one that a tool's address has."""
    other = {"url": "server_url", "server_url": "url"}.get(key, key)
    return next((url for name in (key, other) if isinstance(url := stored.get(name), str)), None)


def _refilled(new: JsonValue, stored: JsonValue) -> JsonValue:
    match new, stored:
        case dict(), dict():
            return {name: _refilled(value, stored.get(name, value)) for name, value in new.items()}
        case list(), list() if len(new) == len(stored):
            return [_refilled(value, other) for value, other in zip(new, stored, strict=True)]
        case _:
            return stored if new == REDACTED else new


def refuse_redacted(body: JsonValue, param: str = "") -> None:
    """Raises BadRequest for a secret that is redacted: somebody sends back what a reply showed."""
    path = next(redacted_paths(body, param), None)
    if path is not None:
        message = f"Invalid '{path}': this is the mask that stands for a secret in replies, not the secret."
        raise BadRequest(message, param=path, code="invalid_value")


def refuse_moved_secrets(new: JsonValue, stored: JsonValue, param: str = "") -> None:
    """Raises BadRequest where redacted values stand for secrets that would now go to another server than before.

    Otherwise whoever may change a registration could have its secrets sent to a server of his own.
    """
    match new, stored:
        case dict(), dict():
            if _has_moved(new, stored) and (path := next(redacted_paths({"headers": new.get("headers")}, param), None)):
                message = (
                    f"Invalid '{path}': the address is another server's now; give the headers again with their values,"
                    " or null to send none."
                )
                raise BadRequest(message, param=path, code="invalid_value")
            for key, value in new.items():
                if isinstance(value, str) and is_url_field(key):
                    _refuse_moved_query(value, _stored_url(key, stored), f"{param}.{key}" if param else key)
                refuse_moved_secrets(value, stored.get(key), f"{param}.{key}" if param else key)
        case _:
            return


def _refuse_moved_query(new: str, stored: str | None, param: str) -> None:
    if stored is not None and has_redacted(new) and _origin(new) != _origin(stored):
        message = f"Invalid '{param}': the address is another server's now; give its query again with its values."
        raise BadRequest(message, param=param, code="invalid_value")


def _has_moved(new: JsonObject, stored: JsonObject) -> bool:
    return not _origins(new) <= _origins(stored)


def _origins(body: JsonObject) -> set[str]:
    """Whom the headers of this tool or grader are sent to."""
    return {_origin(value) for key in _ADDRESSES if isinstance(value := body.get(key), str)}


def _origin(address: str) -> str:
    """Scheme, host and port; of what is no address, itself: an unknown field may hold anything."""
    try:
        return parse_url(address).origin
    except BadUrl:
        return redact_url(address)
