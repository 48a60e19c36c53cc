"""What is wrong with the URL of a server that an operator gives, without the URL: it holds a password. Pure."""

DATABASE_SCHEMES = ("postgresql", "postgres")
BROKER_SCHEMES = ("redis", "rediss", "redis+socket", "amqp", "amqps")


def database_url_problem(url: str) -> str | None:
    """None for a URL as libpq takes it, and for its `host=... dbname=...`."""
    if "://" not in url and "=" in url:
        return None
    return _problem(url, DATABASE_SCHEMES)


def broker_url_problem(url: str) -> str | None:
    """None for a URL of a kind of server that the queue can be kept in."""
    return _problem(url, BROKER_SCHEMES)


def _problem(url: str, schemes: tuple[str, ...]) -> str | None:
    scheme, is_url, rest = url.partition("://")
    if not is_url or scheme not in schemes:
        *others, last = (f"{known}://" for known in schemes)
        return f"it must begin with {', '.join(others)} or {last}"
    where = rest.partition("?")[0]
    if where.count("@") > 1 or "@" in where.partition("/")[2] or "#" in where:
        return "user and password must be percent-encoded where they hold one of @ # / ? :"
    return None
