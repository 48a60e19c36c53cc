"""Addresses that sign a browser in, once. The token is behind `#`: no server, no log and no referrer sees it."""

PARAMETER = "sign-in"
"""In the fragment; `web/src/lib/arrival.ts` takes it out of the address bar."""
LINK_MAX_AGE_S = 900.0
"""A link that was asked for is opened at once."""
PRINTED_LINK_MAX_AGE_S = 86_400.0
"""The one that `rft up` prints stands in a terminal beside the key itself."""


def sign_in_url(root: str, token: str, path: str = "/") -> str:
    """`root`: the platform's address without a path."""
    return f"{root.rstrip('/')}{path}#{PARAMETER}={token}"


def moved(url: str, root: str, path: str) -> str:
    """The same link by another name of the platform, to another page."""
    return sign_in_url(root, url.partition(f"#{PARAMETER}=")[2], path)
