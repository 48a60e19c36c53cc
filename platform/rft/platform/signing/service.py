"""The secrets that calls to customer endpoints are signed with: one, or two while they are being rotated."""

import secrets

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.ids import public_id
from rft.egress.signing import SECRET_BYTES, new_secret
from rft.platform.api.errors import BadRequest, NotFound
from rft.platform.api.pagination import ListPage, to_page, unknown_cursor
from rft.platform.signing.repository import SigningSecretRepository, SigningSecretRow
from rft.platform.signing.schemas import NewSigningSecret, SigningSecretObject
from rft.platform.store.secret_box import SecretBox

MAX_ACTIVE = 2
"""The new one and the old one: every call carries a signature of each."""


async def ensure_signing_secret(connection: AsyncConnection[TupleRow], box: SecretBox) -> None:
    """Make the first secret, once, however many processes start together."""
    stored = SigningSecretRepository(connection)
    await stored.lock()
    if await stored.is_empty():
        await _make(stored, box)


async def active_secrets(connection: AsyncConnection[TupleRow], box: SecretBox) -> tuple[str, ...]:
    """What calls are signed with now, newest first. Raises SecretsUnreadable."""
    return tuple(box.unseal_text(row.sealed) for row in await SigningSecretRepository(connection).active())


async def active_with_ids(connection: AsyncConnection[TupleRow], box: SecretBox) -> list[NewSigningSecret]:
    """The same with everything known of them, for the command line on the host. Raises SecretsUnreadable."""
    return [_told(row, box.unseal_text(row.sealed)) for row in await SigningSecretRepository(connection).active()]


async def list_secrets(
    connection: AsyncConnection[TupleRow], *, after: str | None, limit: int
) -> ListPage[SigningSecretObject]:
    """One page, newest first."""
    stored = SigningSecretRepository(connection)
    if after is not None and await stored.get(after) is None:
        raise unknown_cursor(after)
    return to_page([_to_object(row) for row in await stored.page(after=after, limit=limit + 1)], limit=limit)


async def rotate(connection: AsyncConnection[TupleRow], box: SecretBox) -> NewSigningSecret:
    """A new secret beside the old one, which stays valid until it is retired. Raises BadRequest."""
    stored = SigningSecretRepository(connection)
    await stored.lock()
    active = await stored.active()
    if len(active) >= MAX_ACTIVE:
        raise BadRequest(f"Two signing secrets are active already; retire {active[-1].id} first.", code="invalid_state")
    return await _make(stored, box)


async def retire(connection: AsyncConnection[TupleRow], secret_id: str) -> SigningSecretObject:
    """Sign nothing with it any more. Raises NotFound; BadRequest for the last active one."""
    stored = SigningSecretRepository(connection)
    await stored.lock()
    row = await stored.get(secret_id)
    if row is None:
        raise NotFound(f"No such signing secret: {secret_id}", param="signing_secret_id", code="not_found")
    if row.retired_at is None and len(await stored.active()) == 1:
        raise BadRequest(f"{secret_id} is the only active signing secret; rotate first.", code="invalid_state")
    await stored.retire(secret_id)
    retired = await stored.get(secret_id)
    assert retired is not None, "secrets are never deleted"
    return _to_object(retired)


async def _make(stored: SigningSecretRepository, box: SecretBox) -> NewSigningSecret:
    secret = new_secret(secrets.token_bytes(SECRET_BYTES))
    row = await stored.insert(public_id("sigsec_", secrets.token_bytes(24)), box.seal_text(secret))
    return _told(row, secret)


def _told(row: SigningSecretRow, secret: str) -> NewSigningSecret:
    return NewSigningSecret(**_to_object(row).model_dump(), secret=secret)


def _to_object(row: SigningSecretRow) -> SigningSecretObject:
    return SigningSecretObject(
        id=row.id,
        created_at=int(row.created_at.timestamp()),
        retired_at=None if row.retired_at is None else int(row.retired_at.timestamp()),
        status="active" if row.retired_at is None else "retired",
    )
