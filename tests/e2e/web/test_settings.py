"""Settings in a browser: keys are told once and revoked, providers come and go, secrets are rotated."""

import httpx
from playwright.async_api import Page, expect

from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import PageProblems, sign_in


async def test_a_key_is_made_told_once_and_revoked(platform: Platform, page: Page) -> None:
    await sign_in(page, platform.url, platform.key, "/settings")
    keys = page.get_by_role("region", name="API keys")
    await expect(keys.get_by_role("button", name="Revoke")).to_be_disabled()
    await keys.get_by_label("Name of a new key").fill("nightly evals")
    await keys.get_by_role("button", name="Create a key").click()
    told = keys.get_by_role("status").get_by_role("button", name="Copy it")
    key = (await told.inner_text()).strip()
    async with httpx.AsyncClient(base_url=platform.url, headers={"authorization": f"Bearer {key}"}) as program:
        assert (await program.get("/v1/models")).status_code == 200
        await keys.get_by_role("button", name="I have it").click()
        await expect(page.get_by_text(key)).to_have_count(0)
        await keys.get_by_role("row", name="nightly evals").get_by_role("button", name="Revoke").click()
        await page.get_by_role("button", name="Yes, revoke").click()
        await expect(keys.get_by_role("row", name="nightly evals")).to_contain_text("revoked")
        assert (await program.get("/v1/models")).status_code == 401


async def test_who_revokes_the_browsers_own_key_is_signed_out(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    page_problems.tolerated.append("401")
    await sign_in(page, platform.url, platform.key, "/settings")
    await page.get_by_label("Name of a new key").fill("another")
    await page.get_by_role("button", name="Create a key").click()
    await page.get_by_role("row", name="this browser's").get_by_role("button", name="Revoke").click()
    await expect(page.get_by_role("alertdialog")).to_contain_text("This browser is one of them.")
    await page.get_by_role("button", name="Yes, revoke").click()
    await expect(page.get_by_text("Your session has ended. Sign in again.")).to_be_visible()


async def test_a_provider_is_added_and_a_dead_one_refused(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    page_problems.tolerated.append("400")
    await sign_in(page, platform.url, platform.key, "/settings")
    await page.get_by_role("button", name="Add a provider").click()
    form = page.get_by_role("form", name="New provider")
    for label, value in (("Name", "lab"), ("Address", "http://127.0.0.1:9/v1"), ("Key", "sk-hush")):
        await form.get_by_label(label, exact=True).fill(value)
    await form.get_by_role("button", name="Add").click()
    await expect(form.get_by_role("alert")).to_contain_text("base_url")
    await form.get_by_role("checkbox").uncheck()
    await form.get_by_role("button", name="Add").click()
    providers = page.get_by_role("region", name="Providers")
    await expect(providers.get_by_role("row", name="lab")).to_be_visible()
    await expect(page.get_by_text("sk-hush")).to_have_count(0)
    await providers.get_by_role("button", name="Remove lab").click()
    await page.get_by_role("button", name="Yes, remove").click()
    await expect(providers.get_by_text("No providers")).to_be_visible()


async def test_a_signing_secret_takes_the_others_place(platform: Platform, page: Page) -> None:
    await sign_in(page, platform.url, platform.key, "/settings")
    secrets = page.get_by_role("region", name="Signing secrets")
    await expect(secrets.get_by_role("button", name="Retire")).to_be_disabled()
    await secrets.get_by_role("button", name="Make a new one").click()
    await expect(secrets.get_by_role("status")).to_contain_text("whsec_")
    await secrets.get_by_role("button", name="Retire").last.click()
    await page.get_by_role("button", name="Yes, retire").click()
    await expect(secrets.get_by_text("retired")).to_be_visible()
