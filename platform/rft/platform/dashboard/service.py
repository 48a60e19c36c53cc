"""Signing browsers in and out. The session's token goes into a cookie that no script reads (`api.session_cookie`)."""

import time

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.platform.api import session_repository as sessions
from rft.platform.api.authentication import unknown_key
from rft.platform.api.errors import Unauthorized
from rft.platform.api.key_repository import verify_key
from rft.platform.dashboard.links import LINK_MAX_AGE_S, sign_in_url
from rft.platform.dashboard.schemas import SessionObject, SignInLink


async def sign_in(connection: AsyncConnection[TupleRow], credential: str, *, max_age_s: float) -> str:
    """A new session's token, for a key or a link's token. Raises Unauthorized."""
    if credential.startswith(sessions.TOKEN_PREFIX):
        key_id = await sessions.redeem_sign_in_token(connection, credential)
        if key_id is None:
            raise Unauthorized("This sign-in link was used before, or is too old.", code="sign_in_link_used")
    else:
        key_id = await verify_key(connection, credential)
        if key_id is None:
            raise unknown_key()
    return await sessions.create_session(connection, key_id, max_age_s=max_age_s)


async def describe(connection: AsyncConnection[TupleRow], token: str | None) -> SessionObject:
    """Whether the token's session goes on."""
    session = None if token is None else await sessions.find_session(connection, token)
    if session is None:
        return SessionObject(is_signed_in=False)
    return SessionObject(is_signed_in=True, key_name=session.key_name, expires_at=int(session.expires_at.timestamp()))


async def make_link(
    connection: AsyncConnection[TupleRow], api_key_id: str, root: str, *, max_age_s: float = LINK_MAX_AGE_S
) -> SignInLink:
    """A link for the platform at `root`; it signs in with this key."""
    token = await sessions.create_sign_in_token(connection, api_key_id, max_age_s=max_age_s)
    return SignInLink(url=sign_in_url(root, token), expires_at=int(time.time() + max_age_s))
