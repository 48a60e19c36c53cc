"""What needs somebody is said where they look, and where they do not, if they asked for it."""

import re

from playwright.async_api import Browser, Page, expect

from rft.core.events import HoldBegan, RunEnded
from rft.core.failure import Stage
from tests.e2e.web.run_records import events, step_events
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import PageProblems, sign_in
from tests.shared.waiting import until

RECORDING = """
  globalThis.told = [];
  globalThis.Notification = class extends EventTarget {
    static permission = "granted";
    static requestPermission = async () => "granted";
    constructor(title, options) { super(); globalThis.told.push(`${title} | ${options.body}`); }
  };
"""
"""A browser without a screen shows no notice; this one keeps them."""


NEVER_STALLS = -3600
"""Steps that end in an hour: however slow the machine is, none is overdue."""


async def are_told(page: Page, count: int) -> bool:
    return await page.evaluate("told.length") == count


async def test_a_step_with_many_excluded_rollouts_is_marked_and_leads_to_them(platform: Platform, page: Page) -> None:
    well = await platform.new_job(suffix="well", began_s_ago=NEVER_STALLS)
    await well.start()
    await well.write(events(well.shape, until_step=2, is_ended=False))
    ill = await platform.new_job(suffix="ill", failing_share=0.6, began_s_ago=NEVER_STALLS)
    await ill.start()
    await ill.write(events(ill.shape, until_step=2, is_ended=False))
    await sign_in(page, platform.url, platform.key)
    await expect(page.locator("tbody tr", has_text="ill").get_by_role("link", name="Needs a look")).to_be_visible()
    await expect(page.locator("tbody tr", has_text="well").get_by_role("link", name="Needs a look")).to_have_count(0)

    await page.get_by_role("link", name="ill", exact=True).click()
    alarm = page.get_by_role("region", name="Alarms")
    await expect(alarm).to_contain_text("of step 2's rollouts were excluded")
    await alarm.get_by_role("link", name="Show").click()
    await expect(page.get_by_role("row").filter(has_text="excluded").first).to_be_visible()


async def test_a_browser_whose_clock_is_ahead_takes_no_job_for_stalled(platform: Platform, page: Page) -> None:
    await page.add_init_script("const now = Date.now; Date.now = () => now() + 7_200_000;")
    job = await platform.new_job(suffix="well", began_s_ago=NEVER_STALLS)
    await job.start()
    await job.write(events(job.shape, until_step=3, is_ended=False))
    await sign_in(page, platform.url, platform.key)
    row = page.locator("tbody tr", has_text="well")
    await expect(row).to_contain_text("just now")
    await expect(row.get_by_role("link", name="Needs a look")).to_have_count(0)


async def test_the_browser_tells_of_a_hold_and_of_the_end_to_who_asked(platform: Platform, page: Page) -> None:
    await page.add_init_script(RECORDING)
    job = await platform.new_job(suffix="watched", began_s_ago=NEVER_STALLS)
    await job.start()
    await job.write(events(job.shape, until_step=2, is_ended=False))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    button = page.get_by_role("button", name="Notify me")
    await button.click()
    await expect(page.get_by_role("button", name="Notifying")).to_have_attribute("aria-pressed", "true")
    assert await page.evaluate("told") == []

    for action, pressed in (("Stop notifying", "false"), ("Notify me", "true")):  # As the button does.
        await page.keyboard.press("Control+k")
        await page.keyboard.type("notify")
        await expect(page.get_by_role("option", name=action)).to_be_visible()
        await page.keyboard.press("Enter")
        button = page.get_by_role("button", name=re.compile("^Notify"))
        await expect(button).to_have_attribute("aria-pressed", pressed)

    await job.write([HoldBegan(endpoint="tool `search`", stage=Stage.TOOL, step=3, reason="It is down.")])
    await until(lambda: are_told(page, 1), "the hold is told")
    await job.write([*step_events(job.shape, 3), RunEnded(outcome="succeeded", best_step=3)])
    await until(lambda: are_told(page, 2), "the end is told")
    held, ended = await page.evaluate("told")
    assert held.startswith("watched needs a look | Waits for tool `search`")
    assert ended.lower().startswith("watched: succeeded | ft:starter")


async def test_nobody_is_told_who_did_not_ask(
    platform: Platform, page: Page, browser: Browser, page_problems: PageProblems
) -> None:
    await page.add_init_script(RECORDING)
    job = await platform.new_job(suffix="quiet", began_s_ago=NEVER_STALLS)
    await job.start()
    await job.write(events(job.shape, until_step=1, is_ended=False))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await expect(page.get_by_role("button", name="Notify me")).to_be_visible()
    async with await browser.new_context() as elsewhere:
        await page_problems.attach(elsewhere)
        other = await elsewhere.new_page()
        await other.add_init_script(RECORDING)
        await sign_in(other, platform.url, platform.key, f"/jobs/{job.id}")
        await other.get_by_role("button", name="Notify me").click()
        await expect(other.get_by_role("button", name="Notifying")).to_be_visible()
        await job.write([*step_events(job.shape, 2), RunEnded(outcome="succeeded", best_step=2)])
        await expect(page.locator(".badge").first).to_have_text("succeeded")
        await until(lambda: are_told(other, 1), "who asked is told")
    assert await page.evaluate("told") == []


async def test_a_browser_that_lets_no_page_tell_shows_the_page(platform: Platform, page: Page) -> None:
    await page.add_init_script(RECORDING.replace("super();", 'throw new TypeError("Illegal constructor");'))
    job = await platform.new_job(suffix="phone", began_s_ago=NEVER_STALLS)
    await job.start()
    await job.write(events(job.shape, until_step=2, is_ended=False))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await page.get_by_role("button", name="Notify me").click()
    await expect(page.get_by_role("button", name="Notifying")).to_be_visible()
    await job.write([HoldBegan(endpoint="tool `search`", stage=Stage.TOOL, step=3, reason="It is down.")])
    await expect(page.locator(".hold-banner")).to_be_visible()
    await expect(page.get_by_role("button", name="Notify me")).to_have_attribute("aria-pressed", "false")
