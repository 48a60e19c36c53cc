"""What every page shows while the platform's answer is on its way, and when it is a refusal; and that it comes back."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from playwright.async_api import Locator, Page, Route, expect

from tests.e2e.web.every_address import every_address
from tests.e2e.web.run_records import events
from tests.e2e.web.seeded_evals import SeededEval
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import PageProblems, sign_in
from tests.shared.waiting import until

REFUSAL = '{"error": {"message": "The disk is full.", "type": "server_error", "param": null, "code": "disk_full"}}'
DATA = re.compile(r"/v1/")

pytestmark = pytest.mark.timeout(900)


async def refuse(route: Route) -> None:
    await route.fulfill(status=507, content_type="application/json", body=REFUSAL)


def refused_after(moment: asyncio.Event) -> Callable[[Route], Awaitable[None]]:
    """Holds requests until then, and later ones not at all."""

    async def hold(route: Route) -> None:
        await moment.wait()
        await refuse(route)

    return hold


async def loads_when_asked(page: Page, trouble: Locator) -> bool:
    """Asked again wherever it did not load: one panel may be refused after the others."""
    # All that are there at once: a panel that asks again by itself may be faster than a pointer.
    await trouble.get_by_role("button", name="Try again").evaluate_all("(all) => all.forEach((one) => one.click())")
    return not await trouble.count() and not await page.locator("main .skeleton").count()


async def test_each_page_says_that_it_loads_then_what_is_the_matter_and_loads_when_asked_again(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    page_problems.tolerated.append("507")
    addresses = await every_address(platform)
    await sign_in(page, platform.url, platform.key)
    await expect(page.locator("main h1")).to_be_visible()
    for address in addresses:
        answered = asyncio.Event()
        await page.route(DATA, refused_after(answered))
        await page.goto(platform.url + address)
        await expect(page.get_by_role("status", name="Loading").first, address).to_be_visible()
        answered.set()
        trouble = page.get_by_role("alert").filter(has_text="The disk is full.")
        await expect(trouble.first, address).to_contain_text("Not loaded")
        await page.unroute(DATA)
        # On a job's page each try takes back those under way, so they need time.
        await until(partial(loads_when_asked, page, trouble), address, poll_s=1)
        await expect(page.locator("main h1"), address).to_be_visible()


async def test_a_part_that_does_not_load_is_not_told_to_be_empty(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    page_problems.tolerated.append("507")
    job = await platform.new_job(suffix="half")
    await job.start()
    await job.write(events(job.shape, until_step=2, is_ended=False))
    for part in ("checkpoints", "events", "dashboard/curves"):
        await page.route(re.compile(rf"/{part}\?"), refuse)
    await sign_in(page, platform.url, platform.key)
    trouble = page.get_by_role("alert").filter(has_text="The disk is full.")
    await expect(page.locator("table.jobs").filter(has=trouble)).to_be_visible()
    await page.goto(f"{platform.url}/jobs/{job.id}")
    await expect(trouble).to_have_count(2)
    for said in ("No checkpoint yet", "Nothing to report"):
        await expect(page.get_by_text(said)).to_have_count(0)


async def test_each_page_says_that_there_is_nothing_yet(platform: Platform, page: Page) -> None:
    waiting = await platform.new_job(suffix="waits")
    made = await SeededEval.make(platform.database)
    job = f"/jobs/{waiting.id}"
    pages = {
        job: ("Waiting for its turn", "No endpoint has been called yet", "No checkpoint yet", "No rollouts yet"),
        f"{job}/rollouts": ("No rollouts yet",),
        f"{job}/groups/train/1/4": ("There are no rollouts of this row in this step",),
        f"{job}/variance": ("Nothing is graded yet",),
        f"{job}/change": ("Nothing to compare yet",),
        f"{job}/pair": ("Two traces are needed",),
        "/compare": ("Nothing to compare",),
        "/models": ("No fine-tuned models yet",),
        "/datasets": ("No files yet",),
        f"/evals/{made.id}": ("No runs yet",),
        "/models/chat": ("Choose a model",),
        "/endpoints": ("No job has called an endpoint within a day", "None are registered", "No rehearsals yet"),
        "/settings": ("No providers", "No judge is configured"),
        "/nowhere": ("There is nothing here",),
    }
    await sign_in(page, platform.url, platform.key)
    for address, words in pages.items():
        await page.goto(platform.url + address)
        for said in words:
            await expect(page.locator(".empty strong", has_text=said).first, address).to_be_visible()
