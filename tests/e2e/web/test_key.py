"""The API key's way into the browser."""

from playwright.async_api import Page, expect

from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import Watch, sign_in

STORED = "localStorage.getItem('rft.api_key')"


async def test_the_printed_address_signs_in_and_leaves_no_key_behind(platform: Platform, page: Page) -> None:
    await sign_in(page, platform.url, platform.key)
    await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    await expect(page).to_have_url(f"{platform.url}/")
    assert await page.evaluate(STORED) == platform.key
    assert await page.evaluate("history.length") <= 2, "the address with the key must be replaced, not left behind"
    await page.reload()
    await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()


async def test_without_a_key_a_form_asks_for_it(platform: Platform, page: Page, watch: Watch) -> None:
    watch.tolerated.append("401")
    await page.goto(f"{platform.url}/jobs/ftjob-x")
    field = page.get_by_label("API key")
    await expect(field).to_be_focused()
    await field.fill("rft_wrong_key")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("does not know this key")
    assert await page.evaluate(STORED) is None

    await page.goto(platform.url)
    await page.get_by_label("API key").fill(platform.key)
    await page.get_by_role("button", name="Open the dashboard").click()
    await expect(page.get_by_text("No jobs yet")).to_be_visible()

    await page.get_by_role("button", name="Forget key").click()
    await expect(page.get_by_label("API key")).to_be_visible()
    assert await page.evaluate(STORED) is None


async def test_a_revoked_key_leads_back_to_the_form(platform: Platform, page: Page, watch: Watch) -> None:
    watch.tolerated.append("401")
    await sign_in(page, platform.url, platform.key)
    await expect(page.get_by_text("No jobs yet")).to_be_visible()
    async with platform.database.transaction() as connection:
        await connection.execute("update api_keys set revoked_at = now()")
    await page.reload()
    await expect(page.get_by_role("alert")).to_contain_text("does not know this key")
