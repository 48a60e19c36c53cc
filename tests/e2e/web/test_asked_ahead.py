"""What a page needs first is asked for before the page is drawn, once."""

from urllib.parse import urlsplit

from playwright.async_api import Page, Request, expect

from rft.core.events import RolloutDone
from tests.e2e.web.run_records import events
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import sign_in

DRAWN = "/v1/dashboard/condition"
"""Asked for by what stands on every page, once that is drawn."""


async def asked_by(page: Page, url: str, *, shows: str) -> list[str]:
    """Paths of the requests of a page that is opened, in their order."""
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(urlsplit(request.url).path)

    await page.goto("about:blank")  # A page that is left asks for this and that until the next one answers.
    page.on("request", note)
    await page.goto(url)
    await expect(page.locator(shows).first).to_be_visible()
    page.remove_listener("request", note)
    return asked


async def test_what_is_shown_first_is_asked_for_before_a_page_is_drawn(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="ended")
    await job.start()
    history = events(job.shape, until_step=2)
    await job.write(history)
    await job.stop()
    trace = next(event.trace_id for event in history if isinstance(event, RolloutDone))
    await sign_in(page, platform.url, platform.key, "/")
    path = f"/v1/fine_tuning/jobs/{job.id}"
    for address, shows, first in (
        (f"/jobs/{job.id}", ".chart-canvas canvas", (f"{path}/curves", path)),
        (f"/jobs/{job.id}/rollouts/{trace}", ".turn", (f"{path}/rollouts/{trace}",)),
    ):
        asked = await asked_by(page, platform.url + address, shows=shows)
        for one in first:
            assert asked.count(one) == 1, (one, asked)
            assert asked.index(one) < asked.index(DRAWN), (one, asked)
