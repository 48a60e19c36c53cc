"""Name servers for tests of the address guard."""

import asyncio
import socket
from collections.abc import Sequence

from aiohttp.abc import AbstractResolver, ResolveResult


class ScriptedNames(AbstractResolver):
    """A name server whose answer may change with every question; the last one stays.

    Give it to `HttpClient(make_resolver=...)`. An answer is one address or several.
    """

    def __init__(self, *answers: str | Sequence[str]) -> None:
        self._answers = [[answer] if isinstance(answer, str) else list(answer) for answer in answers]
        self.asked = 0
        """Questions so far."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The next answer, whatever the name."""
        self.asked += 1
        await asyncio.sleep(0)
        addresses = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
            for address in addresses
        ]

    async def close(self) -> None:
        """Nothing is open."""
