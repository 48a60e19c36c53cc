"""What can be done with providers."""

import json
import secrets
from typing import cast

import psycopg

from rft.core.base import JsonObject
from rft.core.ids import public_id
from rft.egress.guard import AddressPolicy, url_problem
from rft.egress.urls import BadUrl, parse_url
from rft.platform.api.errors import ApiError, BadRequest, NotFound
from rft.platform.api.pagination import ListPage, to_page, unknown_cursor
from rft.platform.orders.redaction import redacted_paths
from rft.platform.providers.probing import probed_models
from rft.platform.providers.repository import ProviderRepository, ProviderRow
from rft.platform.providers.schemas import (
    PricePerMillion,
    ProviderCreate,
    ProviderDeleted,
    ProviderFields,
    ProviderObject,
)
from rft.platform.registry.redaction import refuse_redacted, sealed_body, shown_body, with_stored_secrets
from rft.platform.registry.resolution import validated
from rft.platform.settings import Settings
from rft.platform.store.secret_box import SecretBox, SecretsUnreadable
from rft.platform.store.unit_of_work import UnitOfWork
from rft.rollouts.provider_policy import ProviderEndpoint

PREFIX = "provider_"
_DEFAULTS = ProviderEndpoint(name="", base_url="")


async def probe(settings: Settings, order: ProviderCreate) -> list[str] | None:
    """What the provider says of its models; None where it was not to be asked. Raises BadRequest that names the field.

    Before the transaction: it may take seconds.
    """
    _refuse_blocked(order, settings)
    return await probed_models(to_endpoint(order), settings) if order.probe else None


async def create(uow: UnitOfWork, box: SecretBox, order: ProviderCreate, models: list[str] | None) -> ProviderObject:
    """Register a provider. Raises BadRequest."""
    body: JsonObject = order.model_dump(mode="json", exclude_unset=True, exclude={"probe"})
    refuse_redacted(body)
    row = await ProviderRepository(uow.connection).insert(
        public_id(PREFIX, secrets.token_bytes(24)), order.name, shown_body(body), sealed_body(body, box)
    )
    if row is None:
        raise _name_taken(order.name)
    return _to_object(row).model_copy(update={"models": models})


async def update(
    uow: UnitOfWork, box: SecretBox, settings: Settings, provider_id: str, changes: JsonObject
) -> ProviderObject:
    """Change the fields given; null takes one away. Raises NotFound, BadRequest.

    Key and headers that are not given again stay, as long as they go where they went before.
    """
    stored = ProviderRepository(uow.connection)
    row = _found(await stored.lock(provider_id), provider_id)
    old = _whole(row, box)
    wanted: JsonObject = {key: value for key, value in {**shown_body(old), **changes}.items() if value is not None}
    fields = validated(ProviderFields, wanted)
    _refuse_blocked(fields, settings)
    checked: JsonObject = fields.model_dump(mode="json", exclude_unset=True)
    _refuse_moved(checked, old)
    body = cast("JsonObject", with_stored_secrets(checked, old))
    refuse_redacted(body)
    try:
        changed = await stored.update(provider_id, fields.name, shown_body(body), sealed_body(body, box))
    except psycopg.errors.UniqueViolation as error:
        raise _name_taken(fields.name) from error
    return _to_object(changed)


async def retrieve(uow: UnitOfWork, provider_id: str) -> ProviderObject:
    """One. Raises NotFound."""
    return _to_object(_found(await ProviderRepository(uow.connection).get(provider_id), provider_id))


async def list_all(uow: UnitOfWork, *, after: str | None, limit: int) -> ListPage[ProviderObject]:
    """One page, newest first."""
    stored = ProviderRepository(uow.connection)
    if after is not None and not await stored.has_place(after):
        raise unknown_cursor(after)
    rows = await stored.page(after=after, limit=limit + 1)
    return to_page([_to_object(row) for row in rows], limit=limit)


async def delete(uow: UnitOfWork, provider_id: str) -> ProviderDeleted:
    """Forget it. Raises NotFound."""
    if not await ProviderRepository(uow.connection).delete(provider_id):
        raise _not_found(provider_id)
    return ProviderDeleted(id=provider_id)


def opened(row: ProviderRow, box: SecretBox) -> ProviderEndpoint:
    """A provider with its secrets, as it is called. Raises ApiError where the key of its secrets is lost."""
    return to_endpoint(ProviderFields.model_validate(_whole(row, box)))


def price_of(row: ProviderRow) -> PricePerMillion | None:
    """What its tokens cost, where that was told."""
    return ProviderFields.model_validate(shown_body(row.body)).price_per_million


def to_endpoint(fields: ProviderFields) -> ProviderEndpoint:
    """What was given, and the defaults of the rest."""
    return ProviderEndpoint(
        name=fields.name,
        base_url=fields.base_url,
        api_key=fields.api_key,
        headers=fields.headers or {},
        timeout_s=fields.timeout_s or _DEFAULTS.timeout_s,
        max_concurrency=fields.max_concurrency or _DEFAULTS.max_concurrency,
        requests_per_minute=fields.requests_per_minute,
        max_tokens_field=fields.max_tokens_field or _DEFAULTS.max_tokens_field,
        omit_fields=tuple(fields.omit_fields or ()),
    )


def _whole(row: ProviderRow, box: SecretBox) -> JsonObject:
    try:
        return cast("JsonObject", json.loads(box.unseal_text(row.sealed)))
    except SecretsUnreadable as error:
        message = f"The secrets of {row.id} cannot be read ({error}); register the provider anew."
        raise ApiError(message, code="secrets_unreadable") from error


def _to_object(row: ProviderRow) -> ProviderObject:
    body = shown_body(row.body)
    endpoint = to_endpoint(ProviderFields.model_validate(body))
    fields = ProviderFields.model_validate(body)
    return ProviderObject(
        id=row.id,
        created_at=int(row.created_at.timestamp()),
        updated_at=int(row.updated_at.timestamp()),
        name=endpoint.name,
        base_url=endpoint.base_url,
        api_key=endpoint.api_key,
        headers=fields.headers,
        timeout_s=endpoint.timeout_s,
        max_concurrency=endpoint.max_concurrency,
        requests_per_minute=endpoint.requests_per_minute,
        max_tokens_field=endpoint.max_tokens_field,
        omit_fields=[*endpoint.omit_fields],
        price_per_million=fields.price_per_million,
    )


def _refuse_blocked(fields: ProviderFields, settings: Settings) -> None:
    """Addresses that may not be called. A name is judged again whenever it is called."""
    problem = url_problem(fields.base_url, AddressPolicy.of(settings.egress))
    if problem is not None:
        raise BadRequest(f"Invalid 'base_url': {problem}", param="base_url", code="provider_unreachable")


def _refuse_moved(new: JsonObject, old: JsonObject) -> None:
    """Raises BadRequest where redacted values stand for secrets that would now go to another server than before."""
    path = next(redacted_paths(new), None)
    if path is None or _origin(str(new["base_url"])) == _origin(str(old["base_url"])):
        return
    message = f"Invalid '{path}': the address is another server's now; give it again with its value, or null for none."
    raise BadRequest(message, param=path, code="invalid_value")


def _origin(address: str) -> str:
    try:
        return parse_url(address).origin
    except BadUrl:
        return address


def _found(row: ProviderRow | None, provider_id: str) -> ProviderRow:
    if row is None:
        raise _not_found(provider_id)
    return row


def _not_found(provider_id: str) -> NotFound:
    return NotFound(f"No such provider: {provider_id}", param="provider_id", code="provider_not_found")


def _name_taken(name: str) -> BadRequest:
    return BadRequest(f"There is a provider '{name}' already.", param="name", code="provider_exists")
