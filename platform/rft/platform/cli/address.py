"""Which platform the command line talks to, and with which key."""

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from rft.core.errors import RftError

if TYPE_CHECKING:
    from rft.platform.embedded.connection import Connection

HOW_TO_SAY = (
    "no platform to talk to: start one on this machine with `rft up`, or name one with --base-url and --api-key"
    " (RFT_BASE_URL and RFT_API_KEY in the environment)"
)


class NoAddress(RftError):
    """Nobody said where the platform is, or with which key to call it."""


class Address(NamedTuple):
    """A platform and a key to it."""

    base_url: str
    """Ends in `/v1`, or wherever a proxy put it; never in a slash."""
    api_key: str


class Place(NamedTuple):
    """One place that may name a platform: options and their variables, the SDK's variables."""

    base_url: str | None
    api_key: str | None


def find_address(base_url: str | None, api_key: str | None) -> Address:
    """The platform that options or the environment name, or the one that `rft up` runs here. Raises NoAddress."""
    said = Place(base_url, api_key)
    if base_url and api_key:
        return choose(said, Place(None, None), None)
    # Whoever names a platform and a key does not wait for these imports.
    from pydantic import ValidationError

    from rft.platform.embedded.connection import read_connection
    from rft.platform.settings import client_settings, settings

    try:
        sdk = client_settings()
    except ValidationError as problem:
        where = ".".join(map(str, problem.errors()[0]["loc"]))
        raise NoAddress(f"the setting '{where}' in the environment is wrong: {problem.errors()[0]['msg']}") from problem
    return choose(said, Place(sdk.openai_base_url, sdk.openai_api_key), read_connection(settings().home))


def passed_over(base_url: str | None, address: Address) -> str | None:
    """The URL of the platform that runs here, where no option but the SDK's variable sends the command elsewhere."""
    if base_url:
        return None
    from rft.platform.embedded.connection import read_connection
    from rft.platform.settings import settings

    embedded = read_connection(settings().home)
    here = None if embedded is None else normalised(embedded.base_url)
    return None if here is None or _as_loopback(here) == _as_loopback(address.base_url) else here


def _as_loopback(base_url: str) -> str:
    """The same for all names of this machine's own."""
    parts = urlsplit(base_url)
    host = "127.0.0.1" if parts.hostname in ("localhost", "::1") else parts.hostname
    return f"{parts.scheme}://{host}:{parts.port}{parts.path}"


def choose(said: Place, sdk: Place, embedded: "Connection | None") -> Address:
    """The first URL of: options and `RFT_*`, `OPENAI_*`, the embedded platform. Raises NoAddress.

    The SDK's key goes only where the SDK's URL points, and the embedded platform's only to itself: no key travels to
    a server that it was not made for.
    """
    here = None if embedded is None else normalised(embedded.base_url)
    named = said.base_url or sdk.base_url
    url = normalised(named) if named else here
    if url is None:
        raise NoAddress(HOW_TO_SAY)
    keys = [said.api_key]
    if sdk.base_url and url == normalised(sdk.base_url):
        keys.append(sdk.api_key)
    if embedded is not None and url == here:
        keys.append(embedded.api_key)
    key = next((key for key in keys if key), None)
    if key is None:
        raise NoAddress(f"no API key for {url}: give one with --api-key, or RFT_API_KEY in the environment")
    return Address(url, key)


def normalised(base_url: str) -> str:
    """With a path: a bare server means its `/v1`. Raises NoAddress."""
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError as problem:
        raise NoAddress(f"'{base_url}' is no URL: {problem}") from problem
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise NoAddress(f"'{base_url}' is no http or https URL")
    if parts.username is not None or parts.query or parts.fragment:
        raise NoAddress("the base URL must be a plain address, without user, `?` and `#`")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/') or '/v1'}"
