"""`/dashboard/session`: a browser's sign-in, without a key in any script's reach; `/v1/dashboard/sign_in_links`."""

from fastapi import APIRouter, Request, Response

from rft.platform.api.dependencies import AppSettings, Caller, Reading, Uow
from rft.platform.api.errors import Forbidden
from rft.platform.api.session_cookie import drop_cookie, read_cookie, refuse_foreign, set_cookie
from rft.platform.api.session_repository import end_session
from rft.platform.dashboard import service
from rft.platform.dashboard.schemas import SessionObject, SignIn, SignInLink

SESSION_PATH = "/dashboard/session"
session_router = APIRouter(prefix=SESSION_PATH, tags=["dashboard"])
links_router = APIRouter(prefix="/dashboard", tags=["dashboard"])


@session_router.get("")
async def retrieve_session(request: Request, reading: Reading) -> SessionObject:
    """Whether the browser that asks is signed in."""
    return await service.describe(reading.connection, read_cookie(request.headers))


@session_router.post("")
async def sign_in(
    request: Request, response: Response, uow: Uow, settings: AppSettings, wanted: SignIn
) -> SessionObject:
    """Exchange an API key, or the token of a sign-in link, for a session in an HttpOnly cookie. Own pages only."""
    refuse_foreign(request.method, request.headers)
    token = await service.sign_in(uow.connection, wanted.credential, max_age_s=settings.session_max_s)
    earlier = read_cookie(request.headers)
    if earlier is not None:
        await end_session(uow.connection, earlier)
    set_cookie(response, request.headers, token, max_age_s=settings.session_max_s)
    return await service.describe(uow.connection, token)


@session_router.delete("")
async def sign_out(request: Request, response: Response, uow: Uow) -> SessionObject:
    """End the browser's session. Own pages only."""
    refuse_foreign(request.method, request.headers)
    token = read_cookie(request.headers)
    if token is not None:
        await end_session(uow.connection, token)
    drop_cookie(response, request.headers)
    return SessionObject(is_signed_in=False)


@links_router.post("/sign_in_links")
async def create_sign_in_link(request: Request, uow: Uow, caller: Caller) -> SignInLink:
    """Make an address that signs one browser in to the dashboard, once, within 15 minutes, with the caller's key."""
    if caller.session_sha256 is not None:
        # A session would outlive its age.
        raise Forbidden("A sign-in link is made with an API key, not by a browser.", code="api_key_needed")
    return await service.make_link(uow.connection, caller.api_key_id, str(request.base_url))
