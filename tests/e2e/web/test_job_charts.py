"""What can be made of a job's charts: smoothed, marked, taken away; and the diagnostics below them."""

import asyncio
import csv
import json
import re
from pathlib import Path

from playwright.async_api import Page, Request, Route, expect

from rft.core.estimates import estimate_reward
from rft.core.events import HoldBegan, HoldEnded, Notice, RunStarted, StepDone
from rft.core.failure import Stage
from tests.e2e.web.run_records import events, step_events
from tests.e2e.web.seeded_platform import Platform, SeededJob
from tests.e2e.web.watched_page import shown, sign_in
from tests.shared.browser import draw_out

LAST = 4


def read(path: Path) -> bytes:
    return path.read_bytes()


async def open_job(platform: Platform, page: Page) -> tuple[SeededJob, dict[int, StepDone]]:
    job = await platform.new_job(suffix="charts")
    await job.start()
    history = events(job.shape, until_step=LAST, is_ended=False)
    await job.write(history)
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await expect(page.locator(".chart-canvas canvas").first).to_be_visible()
    return job, {event.step: event for event in history if isinstance(event, StepDone)}


COUNT_DRAWINGS = """
const clear = CanvasRenderingContext2D.prototype.clearRect;
CanvasRenderingContext2D.prototype.clearRect = function (...box) {
  this.canvas.drawings = (this.canvas.drawings ?? 0) + 1;
  return clear.apply(this, box);
};
"""
"""A drawing of a chart begins with an empty canvas."""
DRAWINGS = """
() => Object.fromEntries([...document.querySelectorAll(".chart-canvas canvas")].map(
  (one) => [one.closest("figure").querySelector("h3").textContent, one.drawings ?? 0]
))
"""

TWO_FRAMES = "() => new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown)))"


async def drawings_at_rest(page: Page) -> dict[str, int]:
    """How often each chart was drawn, by its title, once nothing has been drawn for ten frames."""
    seen, looks = await page.evaluate(DRAWINGS), 0
    while looks < 5:
        await page.evaluate(TWO_FRAMES)
        now = await page.evaluate(DRAWINGS)
        looks = looks + 1 if now == seen else 0
        seen = now
    return seen


async def test_each_chart_is_drawn_once_while_a_page_opens(platform: Platform, page: Page) -> None:
    """Curves come last: the chart of rewards is drawn anew for checkpoints and markers that come later."""
    job = await platform.new_job(suffix="ended")
    await job.start()
    await job.write(events(job.shape, until_step=LAST))
    await job.stop()
    await page.add_init_script(COUNT_DRAWINGS)
    markers = {"/checkpoints", "/events?code="}
    told = asyncio.Event()

    async def note(request: Request) -> None:
        markers.difference_update([one for one in markers if one in request.url])
        if not markers:
            told.set()

    async def hold(route: Route) -> None:
        await told.wait()
        await drawings_at_rest(page)
        await route.continue_()

    page.on("requestfinished", note)
    await page.route("**/curves?*", hold)
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await expect(page.locator(".chart-canvas canvas")).to_have_count(5)
    await expect(page.locator("table.rollouts tbody tr").first).to_be_visible()
    drawings = await drawings_at_rest(page)
    page.remove_listener("requestfinished", note)
    assert set(drawings.values()) == {1}, drawings


async def test_rewards_are_smoothed_marked_and_taken_away(platform: Platform, page: Page) -> None:
    job, records = await open_job(platform, page)
    reward = page.locator("figure", has=page.get_by_role("heading", name="Reward", exact=True))
    await expect(reward).to_contain_text(re.compile(r"best checkpoint: \d"))
    await page.get_by_role("radio", name="Smoothed").or_(page.get_by_role("button", name="Smoothed")).first.click()
    await expect(reward.locator("li", has_text="Train, smoothed")).to_be_visible()

    async with page.expect_download() as saved:
        await page.get_by_role("button", name="Reward as CSV").click()
    download = await saved.value
    assert download.suggested_filename == f"{job.id}-reward.csv"
    rows = {int(row["step"]): row for row in csv.DictReader(read(await download.path()).decode().splitlines())}
    assert sorted(rows) == sorted(records)
    for step, record in records.items():
        assert rows[step]["Train"] == ("" if record.train is None else str(record.train.reward_mean))
        estimate = None if record.valid is None else record.valid.reward_estimate
        assert rows[step]["Validation low"] == ("" if estimate is None else str(estimate.low))

    async with page.expect_download() as saved:
        await page.get_by_role("button", name="Reward as PNG").click()
    picture = read(await (await saved.value).path())
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 5_000, "more than an empty page"


async def test_what_other_models_earn_with_a_prompt_alone_lies_as_lines_behind_the_reward(
    platform: Platform, page: Page
) -> None:
    job, records = await open_job(platform, page)
    reward = estimate_reward([[1.0, 0.5], [0.5, 0.0], [1.0, 1.0]])
    figures = {
        "rollouts": 6,
        "graded": 6,
        "failures": {},
        "error": None,
        "turns_without_usage": 0,
        "tool_calls": 9,
        "cost": None,
    }
    spent = {"prompt_tokens": 900, "cached_tokens": 0, "completion_tokens": 120, "duration_s": 4.0}
    assert reward is not None
    told = [{"model": "lab/large", "reward": reward.model_dump(), **figures, **spent}]
    async with platform.database.transaction() as connection:
        await connection.execute("update jobs set baselines = %s where id = %s", (json.dumps(told), job.id))
    await page.reload()
    chart = page.locator("figure", has=page.get_by_role("heading", name="Reward", exact=True))
    await expect(chart.locator("li", has_text="lab/large")).to_be_visible()
    async with page.expect_download() as saved:
        await page.get_by_role("button", name="Reward as CSV").click()
    rows = list(csv.DictReader(read(await (await saved.value).path()).decode().splitlines()))
    assert [float(row["lab/large"]) for row in rows] == [reward.mean] * len(records)


async def test_a_hold_is_marked_at_its_step(platform: Platform, page: Page) -> None:
    job, _ = await open_job(platform, page)
    await job.write([HoldBegan(endpoint="tool `search`", stage=Stage.TOOL, step=3, reason="It is down.")])
    reward = page.locator("figure", has=page.get_by_role("heading", name="Reward", exact=True))
    await expect(reward).to_contain_text("held: 3")


async def test_what_happened_long_ago_is_marked_and_so_are_resumes_and_alarms(platform: Platform, page: Page) -> None:
    """However many events came since."""
    job = await platform.new_job(suffix="eventful", failing_share=0.6)
    await job.start()
    await job.write(events(job.shape, until_step=3, is_ended=False))
    await job.write([HoldBegan(endpoint="tool `search`", stage=Stage.TOOL, step=4, reason="It is down.")])
    await job.write([HoldEnded(step=4, endpoint="tool `search`", held_s=12.0)])
    await job.write([RunStarted(resumed_from_step=2, total_steps=8, pid=1)])
    await job.write([Notice(level="info", message=f"notice {number}") for number in range(120)])
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    reward = page.locator("figure", has=page.get_by_role("heading", name="Reward", exact=True))
    for told in ("held: 4", "resumed from: 2", "many excluded from: 1"):
        await expect(reward).to_contain_text(told)
    await job.write([RunStarted(resumed_from_step=1, total_steps=8, pid=1)])
    await expect(reward).to_contain_text("resumed from: 1, 2")


async def test_diagnostics_are_asked_for_when_they_are_opened_and_follow_the_job(
    platform: Platform, page: Page
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    job, records = await open_job(platform, page)
    assert not any("/diagnostics" in url for url in asked)
    await page.get_by_text("Diagnostics", exact=True).click()
    stops = page.locator("figure", has_text="What ended rollouts")
    await expect(stops.locator(".chart-canvas")).to_have_attribute("data-points", str(LAST + 1))
    norm = page.locator("figure", has_text="Gradient norm").locator("output").first
    assert records[LAST].optimization is not None
    await expect(norm).to_have_text(re.compile(r"\d"))
    await expect(page.get_by_text(re.compile(r"^A step takes \d+\.\d s: "))).to_be_visible()

    finished = step_events(job.shape, LAST + 1)
    await job.write(finished)
    await expect(stops.locator(".chart-canvas")).to_have_attribute("data-points", str(LAST + 2))
    done = next(event for event in finished if isinstance(event, StepDone))
    assert done.train is not None
    p50 = page.locator("figure", has_text="Time of a rollout").locator("li", has_text="Median").locator("output")
    assert done.train.rollout_latency_p50_s is not None
    seconds = float((await p50.inner_text()).removesuffix(" s"))
    assert abs(seconds - done.train.rollout_latency_p50_s) < 0.01, shown(done.train.rollout_latency_p50_s)


async def test_a_chart_out_of_sight_rests_and_shows_what_the_others_do_once_it_is_seen(
    platform: Platform, page: Page
) -> None:
    await page.add_init_script(COUNT_DRAWINGS)
    await open_job(platform, page)
    await page.get_by_text("Diagnostics", exact=True).click()
    figures = page.locator("figure", has=page.locator(".chart-canvas"))
    reward, below = figures.first, page.locator("figure", has_text="Gradient norm")
    canvas = below.locator(".chart-canvas canvas")
    await expect(canvas).to_be_attached()
    await page.evaluate("scrollTo(0, 0)")
    before = await drawings_at_rest(page)

    over = await reward.locator(".u-over").bounding_box()
    assert over is not None
    await draw_out(page, over, 0.4, 0.9)
    shown_part = page.get_by_text(re.compile(r"^steps \d+ to \d+$")).first
    from_step, to_step = map(int, re.findall(r"\d+", await shown_part.inner_text()))
    assert (from_step, to_step) != (0, LAST)
    await page.mouse.move(2, 2)  # or else the page's scrolling would take the crosshair away
    await reward.get_by_role("application").focus()
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("ArrowRight")
    told = await reward.locator(".legend-step").inner_text()
    title = await below.get_by_role("heading").inner_text()
    drawings = await page.evaluate(DRAWINGS)
    assert drawings["Reward"] > before["Reward"]
    assert drawings[title] == before[title]
    crosshair = "one => new DOMMatrix(getComputedStyle(one).transform).m41 / one.parentElement.offsetWidth"
    at = await reward.locator(".u-cursor-x").evaluate(crosshair)
    assert at > 0

    await below.evaluate("one => one.scrollIntoView({ block: 'center' })")
    await expect(below.locator(".legend-step")).to_have_text(told)
    await page.wait_for_function(f"({DRAWINGS})()[{json.dumps(title)}] > {before[title]}")
    assert abs(await below.locator(".u-cursor-x").evaluate(crosshair) - at) < 0.02
    over = await below.locator(".u-over").bounding_box()
    assert over is not None
    for part, step in ((0.02, from_step), (0.98, to_step)):
        await page.mouse.move(over["x"] + over["width"] * part, over["y"] + over["height"] / 2)
        await expect(below.locator(".legend-step")).to_have_text(f"step {step}")


async def test_rewards_lie_over_what_they_cost_and_the_address_keeps_that(platform: Platform, page: Page) -> None:
    job, records = await open_job(platform, page)
    reward = page.locator("figure", has=page.get_by_role("heading", name="Reward", exact=True))
    await page.get_by_role("button", name="Rollouts spent").click()
    await expect(reward).to_contain_text("mean per step, over rollouts, of training and validation")
    await expect(page).to_have_url(f"{platform.url}/jobs/{job.id}?axis=rollouts")

    async with page.expect_download() as saved:
        await page.get_by_role("button", name="Reward as CSV").click()
    rows = list(csv.DictReader(read(await (await saved.value).path()).decode().splitlines()))
    counted = {
        step: sum(one.rollouts for one in (record.train, record.valid) if one) for step, record in records.items()
    }
    spent = [sum(counted[step] for step in sorted(records)[: at + 1]) for at in range(len(records))]
    assert [(int(row["step"]), int(row["rollouts"])) for row in rows] == list(zip(sorted(records), spent, strict=True))

    chart = reward.get_by_role("application")
    await expect(chart.locator("canvas")).to_be_visible()
    await chart.focus()
    await page.keyboard.press("ArrowRight")
    await expect(reward).to_contain_text(f"step 0 · {spent[0]} rollouts")
    await job.write(step_events(job.shape, LAST + 1))
    await expect(chart).to_have_attribute("data-points", str(LAST + 2))
    await page.get_by_role("button", name="Time", exact=True).click()
    await page.reload()
    await expect(page.get_by_role("button", name="Time", exact=True)).to_have_attribute("aria-pressed", "true")
    await expect(reward).to_contain_text("since the start")
