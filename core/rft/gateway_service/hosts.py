"""Under which names a service may be asked: a page in a browser can make a name of its own lead to this machine."""

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit


def is_own_host(header: str, allowed: Iterable[str] = ()) -> bool:
    """Whether a `Host` header names this machine itself (`localhost`, a loopback address) or one of `allowed`."""
    try:
        host = urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return False
    name = host.removesuffix(".")
    if name == "localhost" or name in {entry.lower() for entry in allowed}:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
