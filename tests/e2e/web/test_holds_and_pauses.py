"""A job that stands still: held by the platform, paused by its customer, or cancelled."""

import re

from playwright.async_api import Locator, Page, expect

from rft.core.events import HoldBegan, HoldEnded, RunEnded
from rft.core.failure import Stage
from tests.e2e.web.run_records import events, step_events
from tests.e2e.web.seeded_platform import Platform, SeededJob
from tests.e2e.web.watched_page import PageProblems, sign_in

REASON = "tool 'search' at http://127.0.0.1:9301 answered HTTP 503 on every attempt"

LOST = "Twice in a row the platform could not finish 20 of 32 rollouts of step 3."


async def running_job(platform: Platform, *, suffix: str) -> SeededJob:
    job = await platform.new_job(suffix=suffix, total_steps=400)
    await job.start()
    await job.write(events(job.shape, until_step=2, is_ended=False))
    return job


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True)


async def test_a_hold_comes_and_goes_while_one_looks(platform: Platform, page: Page) -> None:
    job = await running_job(platform, suffix="held")
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await expect(page.locator(".liveness")).to_have_text("live")
    banner = page.locator(".hold-banner")
    await expect(banner).to_have_count(0)
    progress = page.locator(".progress-row")
    await expect(progress).to_contain_text(re.compile(r"about .* left, done at .*\d\d:\d\d$"))

    await job.write([HoldBegan(step=3, endpoint="tool 'search'", stage=Stage.TOOL, reason=REASON)])
    await expect(banner).to_contain_text("Held: waiting for tool 'search'")
    await expect(banner).to_contain_text(REASON)
    await expect(banner).to_contain_text("step 3 goes on by itself")
    await expect(page.locator(".badge").first).to_have_text("held")
    await expect(progress).not_to_contain_text("left")
    await expect(button(page, "Resume")).to_have_count(0)
    await page.get_by_role("link", name="Agent RFT").click()
    row = page.locator("table.jobs tbody tr")
    await expect(row.locator(".badge")).to_have_text("held")
    await expect(row).to_contain_text("tool 'search'")
    await row.get_by_role("link", name="held", exact=True).click()
    await expect(banner).to_contain_text(REASON)

    await job.write([HoldEnded(step=3, endpoint="tool 'search'", held_s=12.0), *step_events(job.shape, 3)])
    await expect(banner).to_have_count(0)
    await expect(page.locator(".badge").first).to_have_text("running")
    await expect(page.locator(".events")).to_contain_text("answers again")
    await expect(progress).to_contain_text("Step 3 of 400")


async def test_buttons_pause_resume_and_cancel(platform: Platform, page: Page) -> None:
    job = await running_job(platform, suffix="paused")
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    badge, banner = page.locator(".badge").first, page.locator(".hold-banner")
    await button(page, "Pause").click()
    await expect(badge).to_have_text("pausing")
    await expect(banner).to_contain_text("will be done again")
    await expect(button(page, "Pause")).to_have_count(0)

    await job.stop()
    await expect(badge).to_have_text("paused")
    await expect(banner).to_contain_text("Resume it to go on from the checkpoint of step 2")
    await button(page, "Resume").click()
    await expect(badge).to_have_text("queued")
    await expect(banner).to_have_count(0)
    await expect(page.locator(".events")).to_contain_text("it is queued to go on from the checkpoint of step 2")

    # Cancelling is for good, so it is asked twice.
    await button(page, "Cancel").click()
    await button(page, "Keep it").click()
    await expect(badge).to_have_text("queued")
    await button(page, "Cancel").click()
    await button(page, "Yes, cancel").click()
    await expect(badge).to_have_text("cancelled")
    await expect(page.locator(".actions button")).to_have_text(["Delete"])


async def test_a_question_about_cancelling_is_no_question_about_deleting_once_the_job_has_ended(
    platform: Platform, page: Page
) -> None:
    job = await running_job(platform, suffix="ends-meanwhile")
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await expect(page.locator(".liveness")).to_have_text("live")
    question = page.get_by_role("alertdialog")
    await button(page, "Cancel").click()
    await expect(question).to_contain_text("Cancel the job for good?")
    await job.write([RunEnded(outcome="succeeded", best_step=2)])
    await expect(page.locator(".badge").first).to_have_text("succeeded")
    await expect(question).to_have_count(0)
    # Nor is it asked later by itself: deleting is what somebody clicks on.
    await button(page, "Delete").click()
    await expect(question).to_contain_text("Delete this job?")


async def test_a_job_that_the_platform_paused_looks_unlike_one_that_its_customer_paused(
    platform: Platform, page: Page
) -> None:
    failed, paused = await running_job(platform, suffix="failed-by-us"), await running_job(platform, suffix="left")
    await failed.fail_as_platform(LOST)
    await paused.stop()
    await sign_in(page, platform.url, platform.key)
    row, other = [page.locator("table.jobs tbody tr", has_text=job.suffix) for job in (failed, paused)]
    await expect(other.locator(".badge")).to_have_text("paused")
    await expect(other.get_by_role("link", name="Needs a look")).to_have_count(0)
    await expect(row.locator(".badge")).to_have_text("paused by the platform")
    await row.get_by_role("link", name=f"Needs a look: {LOST}").click()
    await expect(page).to_have_url(f"{platform.url}/jobs/{failed.id}#events")
    await expect(page.locator(".hold-banner")).to_contain_text(LOST)
    await expect(page.get_by_role("region", name="Alarms")).to_have_count(0)


async def test_an_action_that_is_refused_says_why(platform: Platform, page: Page, page_problems: PageProblems) -> None:
    page_problems.tolerated.append("400|ERR_FAILED")
    await page.route("**/stream", lambda route: route.abort())
    job = await running_job(platform, suffix="late")
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await expect(button(page, "Pause")).to_be_visible()
    # The page does not hear of the end.
    await job.write([RunEnded(outcome="succeeded", best_step=2)])
    await button(page, "Pause").click()
    alert = page.get_by_role("alert")
    await expect(alert).to_contain_text("is succeeded and can no longer be paused")
    await expect(button(page, "Pause")).to_have_count(0)
    await alert.get_by_role("button", name="Close").click()
    await expect(alert).to_have_count(0)
