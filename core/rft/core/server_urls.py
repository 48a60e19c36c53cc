"""What is wrong with the URL of a server that an operator gives, without the URL: it holds a password. Pure."""

DATABASE_SCHEMES = ("postgresql", "postgres")
BROKER_SCHEMES = ("redis", "rediss", "redis+socket", "amqp", "amqps")
_NOT_ENCODED = "user and password must be percent-encoded where they hold one of @ # / ? :"


def database_url_problem(url: str) -> str | None:
    """None for a URL as libpq takes it, and for its `host=... dbname=...`."""
    if "://" not in url and "=" in url:
        return None
    # The driver takes the first @ for the end of the password, that of the queue the last one.
    return _problem(url, DATABASE_SCHEMES) or (_NOT_ENCODED if url.partition("?")[0].count("@") > 1 else None)


def broker_url_problem(url: str) -> str | None:
    """None for a URL of a kind of server that the queue can be kept in."""
    return _problem(url, BROKER_SCHEMES)


def _problem(url: str, schemes: tuple[str, ...]) -> str | None:
    scheme, is_url, rest = url.partition("://")
    if not is_url or scheme not in schemes:
        *others, last = (f"{known}://" for known in schemes)
        return f"it must begin with {', '.join(others)} or {last}"
    where = rest.partition("?")[0]
    return _NOT_ENCODED if "@" in where.partition("/")[2] or "#" in where else None
