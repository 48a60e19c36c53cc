"""A browser page on which nothing may go wrong unseen."""

import csv
import re
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import httpx
from playwright.async_api import BrowserContext, ConsoleMessage, Page, Request, expect

from rft.platform.dashboard.links import moved

PATIENCE_MS = 60_000
_TELL_VIOLATIONS = """
  addEventListener("securitypolicyviolation", (told) => {
    console.error(`Content Security Policy: ${told.effectiveDirective} violated by ${told.blockedURI}`);
  });
"""


@dataclass(slots=True)
class PageProblems:
    """Errors on the console, exceptions, violations of the security policy, and requests that leave the platform."""

    home: str
    tolerated: list[str] = field(default_factory=list[str])
    """Patterns of console errors that a test provokes on purpose."""
    problems: list[str] = field(default_factory=list[str])

    async def attach(self, context: BrowserContext) -> None:
        """Listen from now on, to every tab."""
        context.set_default_timeout(PATIENCE_MS)
        await context.add_init_script(_TELL_VIOLATIONS)
        # Plain functions: playwright sets attributes on the owners of bound methods.
        context.on("console", lambda message: self._on_console(message))
        context.on("weberror", lambda told: self.problems.append(f"exception: {told.error}"))
        context.on("request", lambda request: self._on_request(request))

    def unexpected(self) -> list[str]:
        """What went wrong and was not provoked."""
        return [problem for problem in self.problems if not any(re.search(p, problem) for p in self.tolerated)]

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console {message.type}: {message.text}")

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((self.home, f"blob:{self.home}")):
            self.problems.append(f"request to elsewhere: {request.url}")


async def sign_in(page: Page, url: str, key: str, path: str = "/") -> None:
    """Open a page by an address as `rft up` and `rft dashboard` print it."""
    await page.goto(await sign_in_link(url, key, path))
    await expect(page.get_by_role("button", name="Sign out")).to_be_visible()


async def sign_in_link(url: str, key: str, path: str = "/") -> str:
    """A link made with a key."""
    async with httpx.AsyncClient(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=60.0) as program:
        made = (await program.post("/v1/dashboard/sign_in_links")).raise_for_status().json()
    return moved(made["url"], url, path)


async def saved_table(page: Page, title: str) -> list[dict[str, str]]:
    """A chart's values as it is taken away; its picture is looked at for something that was drawn."""
    async with page.expect_download() as saved:
        await page.get_by_role("button", name=f"{title} as PNG").click()
    picture = _read(await (await saved.value).path())
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 5_000, "more than an empty page"
    async with page.expect_download() as saved:
        await page.get_by_role("button", name=f"{title} as CSV").click()
    return list(csv.DictReader(_read(await (await saved.value).path()).decode().splitlines()))


def _read(path: Path) -> bytes:
    return path.read_bytes()


def shown(value: float | None, digits: int = 3) -> str:
    """A number as the dashboard writes it: halves go up, as in JavaScript."""
    assert value is not None
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP))
