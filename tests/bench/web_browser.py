"""The pages in a browser over a full database: how soon they can be used, how smoothly charts follow a hand, what an
hour of live events leaves in memory, and what the first load brings."""

import statistics
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

from playwright.async_api import Browser, BrowserContext, Page, ViewportSize, async_playwright

from rft.core.base import JsonObject
from tests.bench.api_data import Stored
from tests.bench.api_server import Served
from tests.bench.api_writes import Run
from tests.bench.web_hostile_trace import searches_ms, stored_hostile_trace
from tests.bench.web_live_hour import live_hour
from tests.shared.browser import browser_path, draw_out, launched_browser

INTERACTIVE_BAR_MS = 1000.0
FILTER_BAR_MS = 300.0
FRAMES_BAR_PER_S = 50.0
FIRST_LOAD_BAR_KB = 200.0
LOADS = 7
PATIENCE_MS = 60_000
_VIEWPORT: ViewportSize = {"width": 1280, "height": 800}
_WHEN_THERE = """
(selectors) => new Promise((resolve) => {
  const look = () => {
    const there = selectors.every((one) => document.querySelector(one) !== null);
    if (!there) return requestAnimationFrame(look);
    // Drawn, and free to answer a hand.
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now()), 0));
  };
  look();
})
"""
_COUNT_FRAMES = """
() => {
  const frames = [];
  const note = (at) => { frames.push(at); window.stopFrames || requestAnimationFrame(note); };
  window.stopFrames = false;
  window.frames_ = frames;
  requestAnimationFrame(note);
}
"""
_CLICK_TO_ROWS = """
([name, wanted]) => new Promise((resolve) => {
  const count = () => document.querySelector(".count")?.textContent ?? "";
  const before = count();
  const button = [...document.querySelectorAll("search button")].find((one) => one.textContent === name);
  const began = performance.now();
  const look = () => {
    const isThere = document.querySelector(".rollout-list.is-stale, .skeleton") === null && location.search === wanted;
    if (!isThere || document.querySelector("tr.clickable, .empty") === null) return requestAnimationFrame(look);
    requestAnimationFrame(() => resolve(performance.now() - began));
  };
  button.click();
  requestAnimationFrame(look);
})
"""
FILTER_CLICKS = (
    ("Train", "?split=train"),
    ("Excluded", "?split=train&outcome=failed"),
    ("Validation", "?split=valid&outcome=failed"),
    ("Graded", "?split=valid&outcome=graded"),
    ("Test", "?split=test&outcome=graded"),
    ("Clear", ""),
)
"""A button of the filters, and the address that it leads to."""


async def browser_cases(served: Served, stored: Stored) -> JsonObject:
    """Each page opened by a browser that has the assets already, but for the first load."""
    async with _browser() as browser:
        cases: JsonObject = {"first_load": await _first_load(browser, served)}
        async with _signed_in(browser, served) as context:
            job = f"{served.url}/jobs/{stored.large_job}"
            chart_and_rows = (".chart-canvas canvas", "table.rollouts tbody tr")
            cases["job_page"] = await _interactive(context, job, chart_and_rows)
            cases["jobs_list"] = await _interactive(context, f"{served.url}/", ("table.jobs tbody tr:nth-child(50)",))
            cases["rollouts_filter"] = await _filters(context, f"{job}/rollouts")
            cases["charts_follow_a_hand"] = await _frames(context, job, _read_charts)
            cases["charts_zoom"] = await _frames(context, job, _zoom_charts)
            cases["charts_pan"] = await _frames(context, job, _pan_charts)
            run = Run(stored)
            trace = f"{job}/rollouts/{await stored_hostile_trace(run)}"
            cases["hostile_trace"] = await _interactive(context, trace, (".message.user", ".turn:nth-child(50) .call"))
            cases["hostile_trace_search"] = _judged(await searches_ms(context, trace), FILTER_BAR_MS)
            cases["live_hour"] = await live_hour(context, served, run)
    return cases


@asynccontextmanager
async def _browser() -> AsyncGenerator[Browser]:
    path = browser_path()
    assert path is not None, "no chromium on this machine"
    async with async_playwright() as playwright:
        browser = await launched_browser(playwright, path)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def _signed_in(browser: Browser, served: Served) -> AsyncGenerator[BrowserContext]:
    """A window that has been used before: signed in, the assets in its cache."""
    async with await browser.new_context(viewport=_VIEWPORT) as context:
        context.set_default_timeout(PATIENCE_MS)
        page = await context.new_page()
        await page.goto(served.url)
        await page.get_by_label("API key").fill(served.key)
        await page.get_by_role("button", name="Sign in").click()
        await page.locator("table.jobs tbody tr").first.wait_for()
        await page.close()
        yield context


async def _first_load(browser: Browser, served: Served) -> JsonObject:
    """Script and style as they come over the wire: compressed, though not as well as brotli does."""
    async with _signed_in(browser, served) as context:
        page = await context.new_page()
        client = await context.new_cdp_session(page)
        await client.send("Network.setCacheDisabled", {"cacheDisabled": True})
        await page.goto(served.url)
        await page.locator("table.jobs tbody tr").first.wait_for()
        sizes = await page.evaluate(
            "performance.getEntriesByType('resource').filter((one) => /\\.(js|css)$/.test(one.name))"
            ".map((one) => one.encodedBodySize)"
        )
    kilobytes = sum(sizes) / 1e3
    figures: JsonObject = {"kilobytes": round(kilobytes, 1), "files": len(sizes)}
    judged: JsonObject = {"bar": {"kilobytes": FIRST_LOAD_BAR_KB}, "passed": 0 < kilobytes <= FIRST_LOAD_BAR_KB}
    return figures | judged


async def _interactive(context: BrowserContext, url: str, selectors: tuple[str, ...]) -> JsonObject:
    """From the address to a page that is drawn and answers; the first load only warms up."""
    times_ms: list[float] = []
    for _ in range(LOADS + 1):
        page = await context.new_page()
        await page.goto(url, wait_until="commit")
        times_ms.append(await page.evaluate(_WHEN_THERE, list(selectors)))
        await page.close()
    return _judged(times_ms[1:], INTERACTIVE_BAR_MS)


async def _filters(context: BrowserContext, url: str) -> JsonObject:
    """From the click to the rows; each filter twice, the second time with a fresh page."""
    times_ms: list[float] = []
    for round_ in range(3):
        page = await context.new_page()
        await page.goto(url)
        await page.locator("tr.clickable").first.wait_for()
        for click in FILTER_CLICKS:
            took_ms = await page.evaluate(_CLICK_TO_ROWS, list(click))
            if round_ > 0:
                times_ms.append(took_ms)
        await page.close()
    return _judged(times_ms, FILTER_BAR_MS)


async def _frames(context: BrowserContext, url: str, move: Callable[[Page], Awaitable[None]]) -> JsonObject:
    """Frames a second that the page draws meanwhile, as its own clock for frames tells."""
    page = await context.new_page()
    await page.goto(url)
    await page.locator("table.rollouts tbody tr").first.wait_for()
    await page.get_by_text("Diagnostics", exact=True).click()
    await page.get_by_role("heading", name="Entropy").wait_for()
    await page.locator(".chart-canvas").first.scroll_into_view_if_needed()
    await page.evaluate(_COUNT_FRAMES)
    await move(page)
    frames = await page.evaluate("window.stopFrames = true, window.frames_")
    await page.close()
    gaps_ms = [after - before for before, after in pairwise(frames)]
    per_s = 1e3 / statistics.fmean(gaps_ms)
    figures: JsonObject = {
        "frames_per_s": round(per_s, 1),
        "frames": len(frames),
        "longest_gap_ms": round(max(gaps_ms), 1),
        "gap_p95_ms": round(sorted(gaps_ms)[len(gaps_ms) * 95 // 100], 1),
    }
    judged: JsonObject = {"bar": {"frames_per_s": FRAMES_BAR_PER_S}, "passed": per_s >= FRAMES_BAR_PER_S}
    return figures | judged


async def _read_charts(page: Page) -> None:
    """The crosshair of all charts goes back and forth."""
    box = await page.locator(".chart-canvas").first.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    for turn in range(4):
        from_x, to_x = box["x"] + 60, box["x"] + box["width"] - 20
        await page.mouse.move(*((from_x, y) if turn % 2 == 0 else (to_x, y)))
        await page.mouse.move(*((to_x, y) if turn % 2 == 0 else (from_x, y)), steps=120)


async def _zoom_charts(page: Page) -> None:
    """A part is drawn out, and out again: all charts show it, with the steps that were left out."""
    box = await page.locator(".chart-canvas").first.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    for turn in range(6):
        from_x = box["x"] + box["width"] * (0.2 + 0.08 * turn)
        await page.mouse.move(from_x, y)
        await page.mouse.down()
        await page.mouse.move(from_x + box["width"] * 0.15, y, steps=40)
        await page.mouse.up()
        await page.get_by_role("button", name="Show all steps").wait_for()
        await page.mouse.dblclick(from_x + 5, y)


async def _pan_charts(page: Page) -> None:
    """A part is drawn out and moved along all steps, there and back."""
    canvas = page.locator(".chart-canvas").first
    box = await canvas.bounding_box()
    assert box is not None
    await draw_out(page, box, 0.4, 0.5)
    await page.get_by_role("button", name="Show all steps").wait_for()
    await canvas.focus()
    for key in ("Shift+ArrowRight", "Shift+ArrowLeft"):
        for _ in range(12):
            await page.keyboard.press(key)
            await page.wait_for_timeout(100)  # as fast as a hand repeats it


def _judged(times_ms: list[float], bar_ms: float) -> JsonObject:
    """By the slowest one: there are few."""
    figures: JsonObject = {"p50_ms": round(statistics.median(times_ms), 1), "max_ms": round(max(times_ms), 1)}
    judged: JsonObject = {"loads": len(times_ms), "bar": {"max_ms": bar_ms}, "passed": max(times_ms) <= bar_ms}
    return figures | judged
