"""What a page shows while the platform does not answer it, and that it comes back."""

import re

from playwright.async_api import Page, Route, expect

from tests.e2e.web.seeded_evals import SeededEval
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import PageProblems, sign_in

REFUSAL = '{"error": {"message": "The disk is full.", "type": "server_error", "param": null, "code": "disk_full"}}'
DATA = re.compile(r"/v1/")


async def refuse(route: Route) -> None:
    await route.fulfill(status=507, content_type="application/json", body=REFUSAL)


async def test_each_page_says_what_is_the_matter_and_loads_when_asked_again(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    page_problems.tolerated.append("507")
    made = await SeededEval.make(platform.database)
    run = await made.run("first", skill=0.5)
    await sign_in(page, platform.url, platform.key)
    pages = {
        "/datasets": page.get_by_role("region", name="Files"),
        "/models": page.get_by_role("region", name="Base models"),
        "/evals": page.get_by_role("link", name="Arithmetic"),
        f"/evals/{made.id}": page.get_by_role("heading", name="What is measured"),
        f"/evals/{made.id}/runs/{run}": page.get_by_role("heading", name="By criterion"),
        "/endpoints": page.get_by_role("heading", name="Rehearsals"),
        "/settings": page.get_by_role("row", name="this browser's"),
    }
    for path, content in pages.items():
        await page.route(DATA, refuse)
        await page.goto(platform.url + path)
        trouble = page.get_by_role("alert").filter(has_text="The disk is full.")
        await expect(trouble.first).to_contain_text("Not loaded")
        await page.unroute(DATA)
        # All that are there at once: a panel that asks again by itself may be faster than a pointer.
        await trouble.get_by_role("button", name="Try again").evaluate_all("(all) => all.forEach((one) => one.click())")
        await expect(trouble).to_have_count(0)
        await expect(content).to_be_visible()
