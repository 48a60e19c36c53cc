"""Every page and job can be reached by keys alone."""

import re

from playwright.async_api import Page, expect

from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import sign_in


async def test_the_search_leads_to_jobs_and_pages_by_keys_alone(platform: Platform, page: Page) -> None:
    for suffix in ("finance", "retail"):
        await platform.new_job(suffix=suffix)
    await sign_in(page, platform.url, platform.key)
    await page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Page or job")
    await expect(field).to_be_focused()
    await page.keyboard.type("retail")
    await expect(page.get_by_role("dialog").get_by_role("option")).to_have_count(1)
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{platform.url}/jobs/{platform.jobs[1].id}")
    await expect(field).to_be_hidden()

    await page.keyboard.press("Control+k")
    await page.keyboard.type("s")
    await expect(page.get_by_role("dialog").get_by_role("option").first).to_have_text(re.compile("Settings"))
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{platform.url}/settings")


async def test_escape_closes_what_is_open_and_typing_opens_nothing(platform: Platform, page: Page) -> None:
    await sign_in(page, platform.url, platform.key)
    await page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    await expect(keys.get_by_text("search pages and jobs")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(keys).to_be_hidden()

    await page.get_by_role("button", name="Search").click()
    await page.keyboard.type("no such thing?")
    await expect(page.get_by_text("Nothing fits.")).to_be_visible()
    await expect(keys).to_be_hidden()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("combobox", name="Page or job")).to_be_hidden()
