"""A platform that is restarted under open pages."""

import socket
import threading
from pathlib import Path

from playwright.async_api import Page, Request, expect

from rft.platform.settings import Settings
from tests.e2e.web.run_records import events, step_events
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import PageProblems, sign_in
from tests.shared.free_port import free_port
from tests.shared.running_api import ReceivedMessages, Served
from tests.shared.waiting import until


class ServedAt(Served):
    """On a port that is known, as a platform is after its restart."""

    def __init__(self, settings: Settings, port: int) -> None:
        super().__init__(settings, ReceivedMessages())
        self._socket.close()
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})


async def test_open_pages_say_that_the_platform_is_gone_and_go_on_after_its_restart(
    platform: Platform, page: Page, page_problems: PageProblems, migrated_url: str, tmp_path: Path
) -> None:
    page_problems.tolerated.append("ERR_")
    job = await platform.new_job(suffix="live")
    await job.start()
    await job.write(events(job.shape, until_step=2, is_ended=False))
    settings = Settings.model_validate({"home": tmp_path / "home", "DATABASE_URL": migrated_url})
    live, gone = page.locator(".liveness"), page.get_by_role("status").filter(has_text="The platform is gone")
    points = page.locator(".chart-canvas").first
    with ServedAt(settings, free_port()) as port:
        page_problems.home = f"http://127.0.0.1:{port}"
        await sign_in(page, page_problems.home, platform.key, f"/jobs/{job.id}")
        await expect(live).to_have_text("live")
        await expect(points).to_have_attribute("data-points", "3")
    await expect(live).to_have_text("reconnecting")
    await expect(gone).to_contain_text("as it was at")
    await job.write(step_events(job.shape, 3))
    with ServedAt(settings, port):
        await expect(live).to_have_text("live")
        await expect(points).to_have_attribute("data-points", "4")
        await expect(gone).to_have_count(0)
        await page.get_by_role("link", name="Jobs", exact=True).first.click()
        await expect(page.locator("tbody tr")).to_contain_text("3 / 8")


CALLS = "**/v1/**"
BARS_TAKEN_AWAY = """
  globalThis.taken = 0;
  new MutationObserver((changes) => {
    globalThis.taken += changes.flatMap((one) => [...one.removedNodes]).length;
  }).observe(document.querySelector(".condition-bars"), { childList: true });
"""


async def test_pages_behind_a_proxy_say_that_it_answers_with_an_error_and_load_by_themselves(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    page_problems.tolerated.append("502")
    job = await platform.new_job(suffix="live")
    await job.start()
    await job.write(events(job.shape, until_step=2, is_ended=False))
    await sign_in(page, platform.url, platform.key)
    await page.route(CALLS, lambda route: route.fulfill(status=502, body="Bad Gateway"))
    await page.goto(f"{platform.url}/jobs/{job.id}")
    bar = page.get_by_role("status").filter(has_text="The platform answers with an error")
    await expect(bar).to_contain_text("HTTP 502")
    await expect(page.get_by_text("Not loaded").first).to_be_visible()

    asked: list[str] = []

    def on_request(request: Request) -> None:
        asked.append(request.url)

    page.on("request", on_request)
    await page.evaluate(BARS_TAKEN_AWAY)
    await until(lambda: sum(url.endswith("/condition") for url in asked) >= 2, "the platform to be tried again")
    assert await page.evaluate("globalThis.taken") == 0, "the bar stands still while the platform is tried again"
    await page.unroute(CALLS)
    await expect(bar).to_have_count(0)
    await expect(page.get_by_text("Not loaded")).to_have_count(0)
    await expect(page.locator(".chart-canvas").first).to_have_attribute("data-points", "3")
