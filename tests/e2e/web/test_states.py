"""Every page while something is wrong with the platform itself: it says what, what to do, and comes back."""

import itertools
from pathlib import Path
from typing import LiteralString

import pytest
from playwright.async_api import Locator, Page, expect

from rft.core.events import HoldBegan
from rft.core.failure import Stage
from rft.platform.dashboard import condition
from tests.e2e.web.every_address import every_address
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import PageProblems, sign_in

LOOK_AGAIN = "document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))"
"""As a browser says that its page is looked at again."""
CALLS = "**/v1/**"
HELD = "tool 'search' gave no usable reply to 12 of 16 calls"
ENDS: tuple[tuple[LiteralString, LiteralString], ...] = (
    ("update sessions set expires_at = now()", "update sessions set expires_at = now() + interval '1 day'"),
    ("update api_keys set revoked_at = now()", "update api_keys set revoked_at = null"),
)
"""Of a session and of its key, and how it is undone. Pages are told of both alike, so each one of them meets one."""

pytestmark = pytest.mark.timeout(900)


async def test_every_page_tells_of_a_held_job_a_full_disk_a_platform_that_is_gone_and_a_session_or_key_that_has_ended(
    platform: Platform,
    page: Page,
    page_problems: PageProblems,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One after the other on each page, as opening one takes longer than looking at what it says."""

    def almost_nothing(path: Path) -> int:
        return 12_000_000

    monkeypatch.setattr(condition, "free_bytes", almost_nothing)
    page_problems.tolerated += ["401", "ERR_FAILED"]
    addresses = await every_address(platform)
    job = platform.jobs[0]
    await job.write([HoldBegan(step=5, endpoint="tool 'search'", stage=Stage.TOOL, reason=HELD)])
    await sign_in(page, platform.url, platform.key)
    for address, (end, take_back) in zip(addresses, itertools.cycle(ENDS), strict=False):
        await page.goto(platform.url + address)
        await expect(page.locator("main h1"), address).to_be_visible()
        if address == addresses[0]:
            await expect(page.locator("tbody tr .badge")).to_have_text("held")
        elif address == f"/jobs/{job.id}":
            await expect(page.locator(".hold-banner")).to_contain_text(HELD)
        else:
            await expect(held_job(page), address).to_contain_text("watched has waited for tool 'search' since")
        full = page.get_by_role("status").filter(has_text="The disk is full")
        await expect(full, address).to_contain_text("12.0 MB are free on the platform's host, 268.4 MB must be")
        await expect(full, address).to_contain_text("Nothing is lost")
        await keeps_what_was_loaded_while_the_platform_is_gone(page, address)
        async with platform.database.transaction() as connection:
            await connection.execute(end)
        await page.evaluate(LOOK_AGAIN)
        await expect(page.get_by_role("alert"), address).to_contain_text("Your session has ended. Sign in again.")
        await expect(page.get_by_label("API key"), address).to_be_visible()
        async with platform.database.transaction() as connection:
            await connection.execute(take_back)
    await page.goto(platform.url + addresses[-1])
    await held_job(page).get_by_role("link", name="watched").click()
    await expect(page).to_have_url(f"{platform.url}/jobs/{job.id}")


def held_job(page: Page) -> Locator:
    """What stands above every page but the job's own and the list of jobs."""
    return page.get_by_role("status").filter(has_text="A job is held")


async def keeps_what_was_loaded_while_the_platform_is_gone(page: Page, address: str) -> None:
    """And says so, until it is back."""
    gone = page.get_by_text("The platform is gone")
    heading = page.locator("main h1")
    await expect(page.locator("main .skeleton"), address).to_have_count(0)
    said = await heading.inner_text()
    await page.route(CALLS, lambda route: route.abort())
    await page.evaluate(LOOK_AGAIN)
    await expect(gone, address).to_be_visible()
    await expect(page.get_by_role("status").filter(has=gone), address).to_contain_text("as it was at")
    assert await heading.inner_text() == said
    await page.unroute(CALLS)
    # It may have come back by itself before the button is reached.
    await page.get_by_role("button", name="Try now").evaluate_all("(all) => all.forEach((one) => one.click())")
    await expect(gone, address).to_have_count(0)
    await expect(page.get_by_text("cannot be reached"), address).to_have_count(0)


async def test_a_job_that_the_platform_paused_is_told_above_other_pages(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="failed-by-us")
    await job.start()
    await job.fail_as_platform("Twice in a row the platform could not finish a step.")
    await sign_in(page, platform.url, platform.key, "/settings")
    told = page.get_by_role("status").filter(has_text="The platform paused a job")
    await expect(told).to_contain_text("failed-by-us has stood still since")
    await told.get_by_role("link", name="failed-by-us").click()
    await expect(page.locator(".hold-banner")).to_contain_text("could not finish a step")
    await expect(told).to_have_count(0)
