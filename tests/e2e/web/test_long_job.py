"""A job with more steps than are drawn: its page stays small, shows every peak, and more where one looks closer."""

import re

from playwright.async_api import Page, Request, expect

from rft.core.events import Notice, RunStarted, StepDone
from tests.e2e.web.seeded_platform import Platform, SeededJob
from tests.e2e.web.watched_page import shown, sign_in
from tests.shared.browser import draw_out
from tests.shared.train_events import step_done

STEPS = 700
PEAK = 33


def a_step(number: int) -> StepDone:
    step = step_done(number, STEPS, evaluated=number % 10 == 0)
    if step.train is None:
        return step
    reward = 0.975 if number == PEAK else 0.2 + number % 7 / 100
    train = step.train.model_copy(update={"reward_mean": reward, "reward_estimate": None})
    return step.model_copy(update={"train": train})


async def long_job(platform: Platform) -> SeededJob:
    job = await platform.new_job(suffix="long", total_steps=STEPS)
    await job.start()
    begin = RunStarted(resumed_from_step=None, total_steps=STEPS, pid=1)
    await job.write([begin, *(a_step(number) for number in range(STEPS))])
    return job


async def test_a_long_series_is_downsampled_and_zooming_brings_the_rest(platform: Platform, page: Page) -> None:
    job = await long_job(platform)
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await expect(page.locator(".liveness")).to_have_text("live")
    canvas = page.locator("figure", has_text="Reward").first.locator(".chart-canvas")
    await expect(page.get_by_text(re.compile(r"^\d+ of 700 steps are drawn"))).to_be_visible()
    drawn = int(await canvas.get_attribute("data-points") or "0")
    assert 100 < drawn <= 500
    # Nobody needs the whole history told again: the stream goes on where the page's own data ends.
    streams = [request for request in asked if request.url.endswith("/stream")]
    assert min([int((await stream.all_headers())["last-event-id"]) for stream in streams]) >= STEPS
    assert not [request for request in asked if "/steps" in request.url]

    await expect(canvas.locator("canvas")).to_be_visible()
    box = await canvas.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    await draw_out(page, box, 0.4, 0.6)
    await expect(canvas).not_to_have_attribute("data-points", str(drawn))
    assert int(await canvas.get_attribute("data-points") or "0") > drawn

    # The legend tells of the step under the pointer, also after what is drawn was asked for anew.
    shown_part = page.get_by_text(re.compile(r"^steps \d+ to \d+$"))
    from_step, to_step = map(int, re.findall(r"\d+", await shown_part.inner_text()))
    legend = page.locator("figure", has_text="Reward").first.locator(".legend-step")
    over = await canvas.locator(".u-over").bounding_box()
    assert over is not None
    for part in (0.25, 0.75):
        await page.mouse.move(over["x"] + over["width"] * part, middle)
        pointed_at = from_step + (to_step - from_step) * part
        near = [step for step in range(from_step, to_step + 1) if abs(step - pointed_at) <= 2]
        await expect(legend).to_have_text(re.compile(rf"^step ({'|'.join(map(str, near))})$"))

    # Shift and an arrow key take the part that is looked at a quarter of it on, in all charts.
    on = round((to_step - from_step) / 4)
    await canvas.focus()
    async with page.expect_request(lambda request: "curves" in request.url):
        await page.keyboard.press("Shift+ArrowRight")
    await expect(shown_part).to_have_text(f"steps {from_step + on} to {to_step + on}")

    # A drag with Shift takes it along, without asking for every step on the way.
    before, left = len([one for one in asked if "curves" in one.url]), from_step + on
    await page.mouse.move(box["x"] + box["width"] * 0.5, middle)
    await page.keyboard.down("Shift")
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] * 0.8, middle, steps=20)
    await page.mouse.up()
    await page.keyboard.up("Shift")
    await expect(shown_part).not_to_have_text(f"steps {left} to {left + to_step - from_step}")
    dragged_from, dragged_to = map(int, re.findall(r"\d+", await shown_part.inner_text()))
    assert dragged_to - dragged_from == to_step - from_step
    assert dragged_from < left, "to the right goes back"
    assert len([one for one in asked if "curves" in one.url]) <= before + 1

    # A step that comes meanwhile is added, and counted.
    await job.write([a_step(STEPS)])
    await expect(page.get_by_text(re.compile(r"^\d+ of 701 steps are drawn"))).to_be_visible()
    await canvas.dblclick()
    await expect(canvas).to_have_attribute("data-points", str(drawn + 1))


async def test_the_highest_reward_can_be_read_among_downsampled_steps(platform: Platform, page: Page) -> None:
    job = await long_job(platform)
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    reward = page.locator("figure", has_text="Reward").first
    canvas = reward.locator(".chart-canvas")
    await expect(canvas.locator("canvas")).to_be_visible()
    step = reward.locator(".legend-step")
    await canvas.focus()
    for _ in range(50):
        await page.keyboard.press("ArrowRight")
        if await step.inner_text() == f"step {PEAK}":
            break
    await expect(step).to_have_text(f"step {PEAK}")
    await expect(reward.locator("li", has_text=re.compile(r"^Train\d")).locator("output")).to_have_text(shown(0.975))


async def test_events_of_a_page_that_is_open_for_days_are_cut_and_can_be_followed_back(
    platform: Platform, page: Page
) -> None:
    job = await platform.new_job(suffix="talks", total_steps=STEPS)
    await job.start()
    told = [Notice(level="info", message=f"notice {number} of a talkative run") for number in range(2400)]
    await job.write(told[:100])
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await expect(page.locator(".liveness")).to_have_text("live")
    events = page.get_by_role("list", name="Events, newest first").get_by_role("listitem")
    await page.get_by_role("button", name="Older events").click()
    await expect(events.filter(has_text="notice 0 of")).to_have_count(1)
    for begin in range(100, 2400, 100):
        await job.write(told[begin : begin + 100])
        newest = begin + 99
        await expect(events.first).to_contain_text(f"notice {newest} of")

    numbers = await notices(page)
    assert numbers == list(range(2399, 2399 - len(numbers), -1)), "the newest, without a gap"
    assert 1000 <= len(numbers) <= 2000
    await page.get_by_role("button", name="Older events").click()
    await expect(events.filter(has_text=f"notice {numbers[-1] - 1} of")).to_have_count(1)
    further = await notices(page)
    assert further == list(range(2399, 2399 - len(further), -1)), "what is older follows what was kept"


async def notices(page: Page) -> list[int]:
    """The numbers of the notices, as they stand on the page."""
    text = await page.get_by_role("list", name="Events, newest first").inner_text()
    return [int(number) for number in re.findall(r"notice (\d+) of", text)]
