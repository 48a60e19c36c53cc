"""A job's page while it runs."""

import asyncio
import re
import time
from collections.abc import Iterable

from playwright.async_api import Locator, Page, Route, expect

from rft.core.estimates import RewardEstimate
from rft.core.events import Notice, PolicyMeasured, RunEnded, RunStarted, StepDone, TrainEvent
from rft.core.progress import Activity, RoundProgress, RunProgress
from rft.core.rollout import Split
from tests.e2e.web.run_records import events, step_events
from tests.e2e.web.seeded_platform import Platform, SeededJob
from tests.e2e.web.watched_page import PageProblems, shown, sign_in


def step_done(train_events: list[TrainEvent]) -> StepDone:
    return next(event for event in train_events if isinstance(event, StepDone))


async def opened_job(platform: Platform, page: Page, *, suffix: str, until_step: int) -> SeededJob:
    """One under way, with so many steps, and its page."""
    job = await platform.new_job(suffix=suffix)
    await job.start()
    await job.write(events(job.shape, until_step=until_step, is_ended=False))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    return job


async def test_curves_grow_as_steps_are_ingested(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="live", failing_share=0.2)
    await job.start()
    await job.write(events(job.shape, until_step=2, is_ended=False))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    reward = page.locator("figure", has_text="Reward").first
    canvas = reward.locator(".chart-canvas")
    await expect(canvas).to_have_attribute("data-points", "3")
    await expect(page.locator(".liveness")).to_have_text("live")
    await expect(canvas.locator("canvas")).to_have_count(1)
    # The same plot must be fed, not one made anew with each step.
    await canvas.locator("canvas").evaluate("canvas => { canvas.dataset.seen = 'yes' }")

    for step in (3, 4):
        finished = step_events(job.shape, step)
        await job.write(finished)
        record = step_done(finished)
        await expect(canvas).to_have_attribute("data-points", str(step + 1))
        assert record.train is not None
        await expect(reward.locator("li", has_text=re.compile(r"^Train\d")).locator("output")).to_have_text(
            shown(record.train.reward)
        )
        await expect(page.locator(".progress-row")).to_contain_text(f"Step {step} of 8")
    await expect(canvas.locator("canvas")).to_have_attribute("data-seen", "yes")

    tools = page.locator("figure", has_text="Tool calls")
    for name in ("search", "list", "cat"):
        await expect(tools.locator("li", has_text=name)).to_be_visible()
    await expect(page.locator("figure", has_text="Excluded rollouts").locator("li").first).to_be_visible()
    await expect(page.locator(".events li.warn").first).to_contain_text("excluded")

    await job.write([*step_events(job.shape, 5), RunEnded(outcome="succeeded", best_step=5)])
    await expect(page.locator(".badge").first).to_have_text("succeeded")
    await expect(page.locator(".liveness")).to_have_count(0)
    await expect(page.locator(".events")).to_contain_text("successfully completed")


async def test_a_step_that_is_told_shows_the_reward_that_a_reload_shows(platform: Platform, page: Page) -> None:
    job = await opened_job(platform, page, suffix="told", until_step=0)
    await expect(page.locator(".liveness")).to_have_text("live")
    *finished, done = step_events(job.shape, job.shape.eval_interval)
    assert isinstance(done, StepDone)
    assert done.valid is not None
    estimate = RewardEstimate(mean=0.875, low=0.75, high=0.95, rows=8)
    valid = done.valid.model_copy(update={"reward_mean": 0.5, "reward_estimate": estimate})
    await job.write([*finished, done.model_copy(update={"valid": valid})])
    best = page.locator(".tile", has_text="Best validation")
    for _ in range(2):
        await expect(best).to_contain_text(shown(0.875))
        await expect(best).to_contain_text(f"95 %: {shown(0.75)} to {shown(0.95)}")
        await page.reload()


async def test_a_slow_step_shows_where_its_rollouts_are(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="slow")
    await job.start()
    await job.tell(RunProgress(activity=Activity.LOADING, since=time.time()))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await expect(page.get_by_text("Loading the model")).to_be_visible()
    at = RoundProgress(step=0, split=Split.VALID, rollouts=128, ended=97, calling={"search": 31}, queued={"search": 4})
    await job.tell(RunProgress(activity=Activity.ROLLING_OUT, since=time.time() - 61, round=at))
    await expect(
        page.get_by_text("Validation of step 0: 97 of 128 rollouts ended, 31 in `search` (4 queued)")
    ).to_be_visible()
    await expect(page.locator(".now")).to_contain_text(re.compile(r"for \d+ min"))


async def test_a_resumed_run_takes_void_steps_back(platform: Platform, page: Page) -> None:
    job = await opened_job(platform, page, suffix="resumed", until_step=4)
    canvas = page.locator(".chart-canvas").first
    await expect(canvas).to_have_attribute("data-points", "5")
    await expect(page.locator(".liveness")).to_have_text("live")
    await job.write([RunStarted(resumed_from_step=2, total_steps=8, pid=1)])
    await expect(canvas).to_have_attribute("data-points", "3")
    await expect(page.locator(".events")).to_contain_text("resumed from the checkpoint of step 2")
    await job.write(step_events(job.shape, 3))
    await expect(canvas).to_have_attribute("data-points", "4")


async def test_a_step_that_ends_while_the_curves_are_asked_for_again_is_not_lost(
    platform: Platform, page: Page
) -> None:
    job = await opened_job(platform, page, suffix="overtaken", until_step=4)
    canvas = page.locator(".chart-canvas").first
    await expect(canvas).to_have_attribute("data-points", "5")
    await expect(page.locator(".liveness")).to_have_text("live")
    is_answered, is_let_through = asyncio.Event(), asyncio.Event()

    async def late(route: Route) -> None:
        reply = await route.fetch()
        is_answered.set()
        await is_let_through.wait()
        await route.fulfill(response=reply)

    await page.route("**/curves?*", late)
    await job.write([RunStarted(resumed_from_step=2, total_steps=8, pid=1)])
    await is_answered.wait()
    await job.write(step_events(job.shape, 3))
    await expect(canvas).to_have_attribute("data-points", "4")
    async with page.expect_response("**/curves?*"):
        is_let_through.set()
    await job.write(step_events(job.shape, 4))
    await expect(canvas).to_have_attribute("data-points", "5")
    await page.unroute_all(behavior="wait")


async def test_the_page_goes_on_after_the_connection_broke(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    job = await opened_job(platform, page, suffix="offline", until_step=1)
    await expect(page.locator(".liveness")).to_have_text("live")
    page_problems.tolerated.append(r"ERR_INTERNET_DISCONNECTED|ERR_FAILED|ERR_NETWORK")
    await page.route("**/stream", lambda route: route.abort())
    await page.evaluate("location.reload()")
    await expect(page.locator(".liveness")).to_have_text("reconnecting")
    await job.write(step_events(job.shape, 2))
    await page.unroute("**/stream")
    await expect(page.locator(".liveness")).to_have_text("live")
    await expect(page.locator(".chart-canvas").first).to_have_attribute("data-points", "3")


LOOK_ELSEWHERE, LOOK_AGAIN = [
    f"""
  Object.defineProperty(document, "visibilityState", {{ value: "{state}", configurable: true }});
  document.dispatchEvent(new Event("visibilitychange", {{ bubbles: true }}));
"""
    for state in ("hidden", "visible")
]
"""As a browser says of a page in a tab that another one covers; here all count as looked at."""


async def test_hidden_pages_of_a_live_job_leave_connections_to_others_and_still_follow_it(
    platform: Platform, page: Page
) -> None:
    job = await opened_job(platform, page, suffix="watched", until_step=2)
    # A browser has six connections to one server.
    pages = [page, *[await page.context.new_page() for _ in range(6)]]
    for one, is_last in zip(pages, [*[False] * 6, True], strict=True):
        if one is not page:
            await one.goto(f"{platform.url}/jobs/{job.id}")
        await expect(one.locator(".liveness")).to_have_text("live")
        await expect(one.locator(".chart-canvas").first).to_have_attribute("data-points", "3")
        if not is_last:
            await one.evaluate(LOOK_ELSEWHERE)
    await job.write(step_events(job.shape, 3))
    for one in (pages[-1], page):  # A browser's notices come of hidden pages, too.
        await expect(one.locator(".chart-canvas").first).to_have_attribute("data-points", "4")
    # The curves know the step already; its rollouts are new all the same.
    await page.evaluate(LOOK_AGAIN)
    rollouts = page.get_by_role("region", name="Rollouts")
    await expect(rollouts.get_by_role("button", name=re.compile("new rollouts"))).to_be_visible()
    await job.write(step_events(job.shape, 4))
    await expect(page.locator(".chart-canvas").first).to_have_attribute("data-points", "5")
    await expect(page.locator(".liveness")).to_have_text("live")
    await expect(page.locator(".progress-row")).to_contain_text("Step 4 of 8")
    for one in pages:
        await expect(one.locator(".condition-bars .banner")).to_have_count(0)


async def test_a_page_is_live_only_while_a_stream_feeds_it(platform: Platform, page: Page) -> None:
    await opened_job(platform, page, suffix="unfed", until_step=1)
    await expect(page.locator(".liveness")).to_have_text("live")
    await page.evaluate(LOOK_ELSEWHERE)
    await expect(page.locator(".liveness")).to_have_text("connecting")
    await page.evaluate(LOOK_AGAIN)
    await expect(page.locator(".liveness")).to_have_text("live")


async def test_events_have_no_gap_after_a_page_was_hidden_for_long(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    job = await talkative_job(platform, page)
    items = events_of(page).get_by_role("listitem")

    # More than a page of events, and a step that tells when the hidden page has asked for curves.
    await page.evaluate(LOOK_ELSEWHERE)
    await job.write([*notices(range(20, 200)), *step_events(job.shape, 0)])
    await expect(page.locator(".chart-canvas").first).to_have_attribute("data-points", "1")
    # The list of events answers before the stream tells anything.
    page_problems.tolerated.append("ERR_FAILED")
    await page.route("**/stream", lambda route: route.abort())
    async with page.expect_response("**/events?*type=message*"):
        await page.evaluate(LOOK_AGAIN)
    await expect(items.first).to_contain_text("notice 199 of")
    await page.unroute("**/stream")
    await expect(page.locator(".liveness")).to_have_text("live")
    await job.write(notices(range(200, 205)))
    await expect(items.first).to_contain_text("notice 204 of")
    await all_are_there(page, 205)


async def test_events_of_a_job_that_ended_while_nobody_looked_have_no_gap(platform: Platform, page: Page) -> None:
    job = await talkative_job(platform, page)
    await page.evaluate(LOOK_ELSEWHERE)
    await job.write([*notices(range(20, 200)), *step_events(job.shape, 0), RunEnded(outcome="succeeded", best_step=0)])
    await expect(page.locator(".badge").first).to_have_text("succeeded")
    async with page.expect_response("**/events?*type=message*"):
        await page.evaluate(LOOK_AGAIN)
    await expect(events_of(page)).to_contain_text("notice 199 of")
    await all_are_there(page, 200)


async def talkative_job(platform: Platform, page: Page) -> SeededJob:
    """One under way whose page shows twenty notices, half of them told live."""
    job = await platform.new_job(suffix="talks")
    await job.start()
    await job.write(notices(range(10)))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await expect(page.locator(".liveness")).to_have_text("live")
    await job.write(notices(range(10, 20)))
    await expect(events_of(page).get_by_role("listitem").first).to_contain_text("notice 19 of")
    return job


def events_of(page: Page) -> Locator:
    return page.get_by_role("list", name="Events, newest first")


async def all_are_there(page: Page, count: int) -> None:
    """None of so many notices is left out, and none comes twice, before and after older ones are loaded."""
    log = events_of(page)
    numbers = await told_numbers(log)
    assert numbers == list(range(count - 1, count - 1 - len(numbers), -1))
    older, items = page.get_by_role("button", name="Older events"), log.get_by_role("listitem")
    while await older.count():
        before = await items.count()
        await older.click()
        await expect(items).not_to_have_count(before)
    assert await told_numbers(log) == list(range(count - 1, -1, -1))


def notices(numbers: Iterable[int]) -> list[TrainEvent]:
    return [Notice(level="info", message=f"notice {number} of a talkative run") for number in numbers]


async def told_numbers(log: Locator) -> list[int]:
    """The numbers of the notices, as they stand on the page."""
    return [int(number) for number in re.findall(r"notice (\d+) of", await log.inner_text())]


async def test_checkpoints_are_set_against_the_baseline(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="kept")
    await job.start()
    history = events(job.shape)
    await job.write(history)
    records = [event for event in history if isinstance(event, StepDone)]
    baseline, last = records[0].valid, records[-1].valid
    assert baseline is not None
    assert last is not None
    assert last.reward_mean is not None
    assert baseline.reward_mean is not None
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    row = page.locator("section", has=page.locator("#checkpoints")).locator("tbody tr").first
    await expect(row).to_contain_text("best")
    await expect(row).to_contain_text(shown(last.reward_mean))
    await expect(row).to_contain_text("+" + shown(last.reward_mean - baseline.reward_mean))
    await expect(page.locator(".facts", has_text="Burst per step")).to_contain_text("32 rollouts")
    await row.get_by_role("button", name="Use it").click()
    name = f"ft:starter:local:kept:{job.id[-8:]}:ckpt-step-8"
    await expect(page.get_by_role("region", name="Code for the official SDK")).to_contain_text(f'model="{name}"')
    await expect(page.get_by_text(f"rft models export {name} DIR --merged")).to_be_visible()
    adapter = await page.get_by_role("link", name="Adapter").get_attribute("href")
    assert adapter is not None
    assert adapter.endswith("/adapter")
    await page.get_by_role("link", name="Chat", exact=True).click()
    await expect(page.get_by_role("combobox", name="Model")).to_have_value(name)


async def test_a_finished_job_tells_what_it_came_to_with_intervals(platform: Platform, page: Page) -> None:
    """Beside the figure that chose the checkpoint: the one that chose nothing, and what chance allows of both."""
    job = await platform.new_job(suffix="final", valid_rows=60)
    await job.start()
    history = events(job.shape)
    await job.write(history)
    measured = next(event.stats for event in history if isinstance(event, PolicyMeasured))
    assert measured.reward_estimate is not None
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    low, high = (shown(value) for value in (measured.reward_estimate.low, measured.reward_estimate.high))
    tile = page.locator(".tile", has_text="Final")
    await expect(tile).to_contain_text(shown(measured.reward_mean))
    await expect(tile).to_contain_text(f"validation rows, fresh seeds, 95 %: {low} to {high}")
    await expect(tile.locator(".change.good")).to_be_visible()
    await expect(page.locator(".tile", has_text="Best validation")).to_contain_text("95 %:")
    await expect(page.get_by_text(re.compile("Final reward: the checkpoint of step 8 earns"))).to_be_visible()
    await expect(page.locator("figcaption", has_text="Reward").locator("output").nth(1)).to_contain_text("[")


async def test_arrow_keys_read_the_curves(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="keys")
    await job.start()
    await job.write(events(job.shape))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    reward = page.locator("figure", has_text="Reward").first
    await expect(reward.locator(".legend-step")).to_have_text("latest")
    await expect(reward.locator(".chart-canvas canvas")).to_be_visible()
    await reward.locator(".chart-canvas").focus()
    await page.keyboard.press("ArrowLeft")
    await expect(reward.locator(".legend-step")).to_have_text("step 8")
    await page.keyboard.press("ArrowLeft")
    await expect(reward.locator(".legend-step")).to_have_text("step 7")
    # All charts are read at the same step.
    await expect(page.locator("figure", has_text="Step time").locator(".legend-step")).to_have_text("step 7")
    await page.keyboard.press("Tab")
    await expect(reward.locator(".legend-step")).to_have_text("latest")


async def test_an_unknown_job_is_said_to_be_unknown(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    page_problems.tolerated.append("404")
    await sign_in(page, platform.url, platform.key, "/jobs/ftjob-nothing")
    await expect(page.get_by_role("alert")).to_contain_text(re.compile("ftjob-nothing"))
