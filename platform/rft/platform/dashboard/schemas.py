"""A browser's sign-in on the wire. No token is ever in a body that a script reads, but for a link's own."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class SignIn(BaseModel):
    """What a browser signs in with."""

    model_config = ConfigDict(extra="forbid")

    credential: Annotated[str, Field(min_length=1, max_length=200)]
    """An API key, or the token of a sign-in link (`signin_...`)."""


class SessionObject(BaseModel):
    """Whether this browser is signed in."""

    object: Literal["dashboard.session"] = "dashboard.session"
    is_signed_in: bool
    key_name: str | None = None
    """What the key that it signed in with is called."""
    expires_at: int | None = None
    """When it has to sign in again; sooner where the key is revoked."""


class SignInLink(BaseModel):
    """An address that signs one browser in, once."""

    object: Literal["dashboard.sign_in_link"] = "dashboard.sign_in_link"
    url: str
    """Its token is behind `#`, where no server and no log sees it."""
    expires_at: int
