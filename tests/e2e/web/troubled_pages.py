"""Pages of jobs that do not simply run, and of a platform that is in trouble."""

from playwright.async_api import Page, Route, expect

from rft.core.events import HoldBegan, RunEnded
from rft.core.failure import Stage
from tests.e2e.web.opened_pages import OpenPage
from tests.e2e.web.run_records import events
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import sign_in


async def paused_job(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="paused")
    await job.start()
    await job.write(events(job.shape, until_step=2, is_ended=False))
    await job.stop()
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await expect(page.get_by_role("button", name="Resume")).to_be_visible()


async def failed_job(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="failed")
    await job.start()
    message = "Line 3: no messages.\nLine 8: the reference is missing."
    await job.write([RunEnded(outcome="failed", best_step=None, error_code="invalid_file", error_message=message)])
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await expect(page.get_by_text("The job ended before its first step was done.")).to_be_visible()
    lines = await page.get_by_role("alert").locator(".lines").inner_text()
    assert lines.splitlines()[:2] == message.splitlines()


async def held_job(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="held", failing_share=0.6)
    await job.start()
    hold = HoldBegan(step=3, endpoint="tool 'search'", stage=Stage.TOOL, reason="no usable reply to 12 of 16 calls")
    await job.write([*events(job.shape, until_step=2, is_ended=False), hold])
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await expect(page.locator(".hold-banner")).to_be_visible()
    await expect(page.get_by_role("region", name="Alarms")).to_be_visible()


async def queued_job(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="waits")
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await expect(page.get_by_text("Waiting for its turn")).to_be_visible()


async def refused_action(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="late")
    await job.start()
    await job.write(events(job.shape, until_step=1, is_ended=False))
    await page.route("**/pause", refuse)
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await page.get_by_role("button", name="Pause").click()
    await expect(page.get_by_role("alert")).to_contain_text("can no longer be paused")


async def refuse(route: Route) -> None:
    error = {"message": "The job is over and can no longer be paused.", "type": "invalid_request_error"}
    await route.fulfill(status=400, json={"error": error})


async def full_disk(platform: Platform, page: Page) -> None:
    """The bars over every page, with the held job's."""
    await held_job(platform, page)
    await page.route("**/v1/dashboard/condition", without_room)
    await page.get_by_role("link", name="Settings").click()
    await page.reload()
    await expect(page.get_by_role("status").filter(has_text="The disk is full")).to_be_visible()
    await expect(page.get_by_role("status").filter(has_text="A job is held")).to_be_visible()


async def without_room(route: Route) -> None:
    reply = await route.fetch()
    disk = {"free_bytes": 12_000_000, "least_bytes": 268_435_456, "is_full": True}
    await route.fulfill(response=reply, json=(await reply.json()) | {"disk": disk})


TROUBLED: dict[str, OpenPage] = {
    each.__name__: each for each in (paused_job, held_job, queued_job, failed_job, refused_action, full_disk)
}
