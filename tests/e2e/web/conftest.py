"""The built dashboard on a real API over a real database, looked at with a real browser."""

from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from rft.platform.api.key_repository import create_key
from rft.platform.settings import Settings
from rft.platform.store.database import Database
from tests.e2e.web.examination import PROVOKED, Examine, check_page
from tests.e2e.web.opened_pages import OpenPage
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import PageProblems
from tests.shared.browser import browser_path, launched_browser
from tests.shared.running_api import ReceivedMessages, Served

expect.set_options(timeout=60_000)  # a busy machine is slow, and what never comes fails all the same


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of pages on the loop of the one browser."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(loop_scope="session")
async def platform(migrated_url: str, tmp_path: Path) -> AsyncIterator[Platform]:
    """An empty platform that serves the dashboard."""
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        key = await create_key(connection, "browser")
    settings = Settings.model_validate({"home": tmp_path / "home", "DATABASE_URL": migrated_url})
    with Served(settings, ReceivedMessages()) as port:
        async with Database(migrated_url, max_connections=2) as database:
            yield Platform(url=f"http://127.0.0.1:{port}", key=key, database=database)


@pytest.fixture
def page_problems(platform: Platform) -> PageProblems:
    """What the page is not allowed to do."""
    return PageProblems(home=platform.url)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One for all pages of a worker."""
    path = browser_path()
    if path is None:
        pytest.skip("no chromium on this machine")
    async with async_playwright() as playwright:
        browser = await launched_browser(playwright, path)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser, page_problems: PageProblems) -> AsyncIterator[Page]:
    """A page that shares no cookies, storage or cache with another test's; errors on its console fail the test."""
    async with await browser.new_context(viewport={"width": 1360, "height": 900}, reduced_motion="reduce") as context:
        await page_problems.attach(context)
        yield await context.new_page()
    assert page_problems.unexpected() == []


@pytest.fixture(scope="session")
def examined() -> set[str]:
    """Looks of buttons that were examined on one page or another."""
    return set()


@pytest_asyncio.fixture(loop_scope="session")
async def examine(
    browser: Browser, platform: Platform, page_problems: PageProblems, examined: set[str]
) -> AsyncIterator[Examine]:
    """Opens a page in a window whose scheme and size it chooses, and looks whether it can be read and used."""
    async with await browser.new_context(reduced_motion="reduce") as context:
        await page_problems.attach(context)

        async def opened_and_checked(open_page: OpenPage) -> None:
            page_problems.tolerated += PROVOKED.get(open_page, ())
            page = await context.new_page()
            await open_page(platform, page)
            await check_page(page, open_page, examined)

        yield opened_and_checked
    assert page_problems.unexpected() == []
