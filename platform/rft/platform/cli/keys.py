"""Keys made from the command line."""

import asyncio

from psycopg import AsyncConnection, Error

from rft.platform.api.keys import create_key
from rft.platform.embedded.faults import StartFailed
from rft.platform.embedded.home import Home
from rft.platform.embedded.postgres import EmbeddedPostgres
from rft.platform.settings import Settings


def new_key(settings: Settings, name: str) -> str:
    """Create a key; raises StartFailed when the database is not there."""
    return asyncio.run(_new_key(running_database_url(settings), name))


def running_database_url(settings: Settings) -> str:
    """Where the platform's database is, given or embedded; raises StartFailed when the embedded one is not running."""
    if settings.database_url is not None:
        return settings.database_url
    home = Home(settings.home)
    if not home.is_serving():
        raise StartFailed(f"the platform of {home.path} is not running: start it with `rft up`")
    return EmbeddedPostgres(home).url()


async def _new_key(database_url: str, name: str) -> str:
    try:
        async with await AsyncConnection.connect(database_url) as connection:
            return await create_key(connection, name)
    except Error as problem:
        raise StartFailed(f"the database cannot be used: {problem}") from problem
