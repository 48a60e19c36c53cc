"""Every page can be read and used: by assistive technology, on a phone, in the dark, in every state of a button."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Locator, Page, expect

from rft.core.events import RolloutDone, RunEnded
from rft.core.rollout import Split
from tests.e2e.web.run_records import events
from tests.e2e.web.seeded_evals import SeededEval
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.test_compare import compared_job
from tests.e2e.web.test_datasets import DROP, rows
from tests.e2e.web.test_endpoints_page import calling_jobs, open_failed_calls, register
from tests.e2e.web.test_models import answer_chat, say, trained
from tests.e2e.web.test_new_job import filled_form
from tests.e2e.web.test_settings import FITS, UNFIT, judged_job, with_base_models, with_judge_server
from tests.e2e.web.token_records import tokens_of
from tests.e2e.web.watched_page import PageProblems, sign_in

SCREENS = Path(__file__).parents[3] / "var" / "screens"
SERIOUS = ("serious", "critical")
VIEWPORTS = {"wide": (1280, 800), "phone": (390, 844)}


async def empty_list(platform: Platform, page: Page) -> None:
    await sign_in(page, platform.url, platform.key)
    await expect(page.get_by_text("No jobs yet")).to_be_visible()


async def jobs_list(platform: Platform, page: Page) -> None:
    over = await platform.new_job(suffix="over-and-measured", seed=7)
    await over.start()
    await over.write(events(over.shape))
    for number, suffix in enumerate(("first", "second")):
        job = await platform.new_job(suffix=suffix, seed=number)
        await job.start()
        await job.write(events(job.shape, until_step=4, is_ended=False))
    await platform.new_job(suffix="waits")
    await sign_in(page, platform.url, platform.key)
    await expect(page.locator("tbody tr")).to_have_count(4)


async def comparison(platform: Platform, page: Page) -> None:
    jobs = [
        await compared_job(platform, suffix, seed) for seed, suffix in enumerate(("small batches", "large batches"))
    ]
    address = "&".join(f"job={job.id}" for job in jobs)
    await sign_in(page, platform.url, platform.key, f"/compare?{address}")
    await expect(page.locator(".chart-canvas canvas")).to_be_visible()
    await expect(page.get_by_role("region", name="Settings").locator("tbody tr").first).to_be_visible()


async def new_job(platform: Platform, page: Page) -> None:
    await filled_form(platform, page, "http://127.0.0.1:9301/tools/search")
    await expect(page.get_by_role("region", name="What it means")).to_contain_text("Rollouts")


async def running_job(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="running", failing_share=0.2)
    await job.start()
    await job.write(events(job.shape, until_step=4, is_ended=False))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await expect(page.locator(".chart-canvas canvas").first).to_be_visible()
    await page.get_by_text("Diagnostics", exact=True).click()
    await expect(page.get_by_role("heading", name="Entropy")).to_be_visible()
    await expect(page.locator("table.rollouts tbody tr").first).to_be_visible()


async def failed_job(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="failed")
    await job.start()
    message = "Line 3: no messages.\nLine 8: the reference is missing."
    await job.write([RunEnded(outcome="failed", best_step=None, error_code="invalid_file", error_message=message)])
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await expect(page.get_by_text("The job ended before its first step was done.")).to_be_visible()
    lines = await page.get_by_role("alert").locator(".lines").inner_text()
    assert lines.splitlines()[:2] == message.splitlines()


async def trace(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="traced")
    await job.start()
    history = events(job.shape, until_step=2, is_ended=False)
    await job.write(history)
    done = next(event for event in history if isinstance(event, RolloutDone))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/rollouts/{done.trace_id}")
    await expect(page.get_by_role("region", name="Outcome")).to_be_visible()
    await expect(page.get_by_role("region", name="Timeline")).to_be_visible()
    await expect(page.get_by_role("link", name="Next →")).to_be_visible()


async def trace_tokens(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="tokens")
    await job.start()
    history = events(job.shape, until_step=2, is_ended=False)
    done = next(event for event in history if isinstance(event, RolloutDone) and event.key.split is Split.TRAIN)
    await job.write([*tokens_of(done), *history])
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/rollouts/{done.trace_id}")
    await page.get_by_role("button", name="Tokens", exact=True).click()
    await expect(page.get_by_role("region", name="Text of the tokens")).to_contain_text("<|im_start|>")
    await page.get_by_role("button", name="Importance ratio").click()
    await page.locator(".token-text .token.up-2").first.hover()
    await expect(page.locator(".token-details")).to_contain_text("log-probability")


async def rollouts_list(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="many", failing_share=0.1)
    await job.start()
    await job.write(events(job.shape))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/rollouts?min_tokens=30&ended=completed")
    await expect(page.locator("tr.clickable").first).to_be_visible()
    await page.get_by_role("button", name="More filters").click()
    await expect(page.get_by_role("group", name="More filters")).to_be_visible()


async def rollout_group(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="group")
    await job.start()
    await job.write(events(job.shape, until_step=2, is_ended=False))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/groups/train/1/4")
    await expect(page.get_by_role("article")).to_have_count(job.shape.group_size)


async def job_variance(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="spread")
    await job.start()
    await job.write(events(job.shape, until_step=2, is_ended=False))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/variance?split=train&step=1")
    await expect(page.get_by_role("region", name="Rows that differ most")).to_be_visible()


async def endpoints(platform: Platform, page: Page) -> None:
    await calling_jobs(platform)
    await register(platform)
    await sign_in(page, platform.url, platform.key, "/endpoints")
    await expect(page.get_by_role("region", name="Host")).to_be_visible()
    await page.get_by_role("button", name="Rehearse").click()
    await expect(page.get_by_role("row", name="lookup tool")).to_be_visible()
    await open_failed_calls(page)
    await expect(page.get_by_role("region", name="Failed calls of cat")).to_contain_text("502 server error")


async def datasets(platform: Platform, page: Page) -> None:
    await dropped_dataset(platform, page)
    await page.get_by_role("link", name="Datasets").first.click()
    await expect(page.locator("tbody tr")).to_have_count(1)


async def dropped_dataset(platform: Platform, page: Page) -> None:
    await sign_in(page, platform.url, platform.key, "/datasets")
    place = await page.locator(".upload").element_handle()
    await page.evaluate(DROP, [place, rows(5) + '{"messages": []}\n'])
    await expect(page.get_by_role("heading", name="Bad lines")).to_be_visible()
    await page.locator(".preview summary").first.click()


async def settings_page(platform: Platform, page: Page) -> None:
    await judged_job(platform)
    await with_judge_server(page)
    await with_base_models(page, {"lab/large": FITS, "lab/old": UNFIT})
    await sign_in(page, platform.url, platform.key, "/settings")
    await page.get_by_label("Name of a new key").fill("nightly evals")
    await page.get_by_role("button", name="Create a key").click()
    await page.get_by_role("button", name="Add a provider").click()
    await expect(page.get_by_role("form", name="New provider")).to_be_visible()
    await expect(page.get_by_role("row", name="judge-small")).to_be_visible()
    await expect(page.get_by_text("its chat template has no place for tools")).to_be_visible()
    await expect(page.get_by_role("button", name="I have it")).to_be_visible()


async def models_list(platform: Platform, page: Page) -> None:
    await trained(platform)
    await sign_in(page, platform.url, platform.key, "/models")
    await page.get_by_role("button", name="Use it").first.click()
    await expect(page.get_by_role("region", name="Code for the official SDK")).to_be_visible()


async def chat(platform: Platform, page: Page) -> None:
    await trained(platform)
    await answer_chat(page)
    await sign_in(page, platform.url, platform.key, "/models")
    await page.get_by_role("link", name="Chat").first.click()
    await say(page, "How large are the assets?")
    await expect(page.get_by_text("120 tokens read")).to_be_visible()


async def evals_list(platform: Platform, page: Page) -> None:
    over = await SeededEval.make(platform.database)
    await over.run("nightly", skill=0.6)
    going = await SeededEval.make(platform.database, "Questions about reports")
    await going.run("now", skill=0.5, is_going=True)
    await SeededEval.make(platform.database, "Never run")
    await sign_in(page, platform.url, platform.key, "/evals")
    await expect(page.locator("tbody tr")).to_have_count(3)


async def new_eval(platform: Platform, page: Page) -> None:
    await sign_in(page, platform.url, platform.key, "/evals/new")
    await page.get_by_label("Kind").select_option("Score by a model")
    await expect(page.get_by_label("Judge")).to_be_visible()


async def eval_definition(platform: Platform, page: Page) -> None:
    made = await SeededEval.make(platform.database)
    await made.run("before", skill=0.2)
    await made.run("after", skill=0.8, model="ft:starter:local:reports:ab12cd34:ckpt-step-20")
    await made.run("now", skill=0.5, is_going=True)
    await sign_in(page, platform.url, platform.key, f"/evals/{made.id}")
    await expect(page.locator("table.eval-runs tbody tr")).to_have_count(3)
    await page.get_by_role("button", name="New run").click()
    await expect(page.get_by_role("form", name="New run")).to_be_visible()


async def eval_run(platform: Platform, page: Page) -> None:
    made = await SeededEval.make(platform.database)
    run = await made.run("repeated", skill=0.5)
    await sign_in(page, platform.url, platform.key, f"/evals/{made.id}/runs/{run}")
    await page.locator(".output-items summary").nth(1).click()
    await expect(page.get_by_role("region", name="What helpful answered")).to_be_visible()
    await expect(page.get_by_role("region", name="Variance").get_by_role("img")).to_be_visible()


async def eval_comparison(platform: Platform, page: Page) -> None:
    made = await SeededEval.make(platform.database)
    runs = [await made.run(name, skill=skill) for name, skill in (("before", 0.2), ("after", 0.8))]
    await sign_in(page, platform.url, platform.key, f"/evals/{made.id}/compare?a={runs[1]}&b={runs[0]}")
    await page.locator(".output-items summary").first.click()
    await expect(page.get_by_role("region", name="Answer of B").first).to_be_visible()


async def sign_in_form(platform: Platform, page: Page) -> None:
    await page.goto(platform.url)
    await expect(page.get_by_role("button", name="Sign in")).to_be_visible()


async def no_such_page(platform: Platform, page: Page) -> None:
    await sign_in(page, platform.url, platform.key, "/nowhere")


async def question(platform: Platform, page: Page) -> None:
    await running_job(platform, page)
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_role("alertdialog")).to_be_visible()


async def palette(platform: Platform, page: Page) -> None:
    await jobs_list(platform, page)
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("dialog").get_by_role("option").first).to_be_visible()


async def two_traces(platform: Platform, page: Page) -> None:
    await policy_change(platform, page)
    await page.get_by_role("link", name="side by side").first.click()
    await expect(page.get_by_role("article")).to_have_count(2)


async def policy_change(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="changed", valid_rows=30)
    await job.start()
    await job.write(events(job.shape, until_step=8, is_ended=False))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}/change")
    await expect(page.locator(".scatter circle").first).to_be_visible()


PAGES: dict[str, Callable[[Platform, Page], Awaitable[None]]] = {
    each.__name__: each
    for each in (
        job_variance, endpoints, datasets, dropped_dataset, settings_page, models_list, chat,
        evals_list, new_eval, eval_definition, eval_run, eval_comparison,
        rollouts_list, rollout_group,
        sign_in_form, empty_list, jobs_list, comparison, new_job,
        running_job, failed_job, trace, trace_tokens, policy_change, two_traces, no_such_page, question, palette,
    )
}  # fmt: skip


@pytest_asyncio.fixture(loop_scope="session")
async def plain_page(browser: Browser, page_problems: PageProblems) -> AsyncIterator[Page]:
    """A page whose scheme and size the test chooses."""
    async with await browser.new_context() as context:
        await page_problems.attach(context)
        yield await context.new_page()
    assert page_problems.unexpected() == []


@pytest.mark.parametrize("open_page", PAGES.values(), ids=PAGES)
async def test_no_serious_finding_and_nothing_off_the_screen(
    open_page: Callable[[Platform, Page], Awaitable[None]],
    platform: Platform,
    plain_page: Page,
    page_problems: PageProblems,
) -> None:
    page = plain_page
    if open_page is sign_in_form:
        page_problems.tolerated.append("401")
    if open_page is new_job:
        page_problems.tolerated.append("400")  # of an order that is not whole yet
    await open_page(platform, page)
    SCREENS.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        for name, (width, height) in VIEWPORTS.items():
            await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            await page.set_viewport_size({"width": width, "height": height})
            await page.screenshot(path=SCREENS / f"{open_page.__name__}-{name}-{scheme}.png", full_page=True)
            found = (await Axe().run(page)).response["violations"]
            told = [
                f"{one['id']}: {one['nodes'][0]['target']} {one['nodes'][0]['failureSummary'][:300]}"
                for one in found
                if one["impact"] in SERIOUS
            ]
            assert told == [], f"{scheme}, {name}"
            assert await page.evaluate("document.scrollingElement.scrollWidth") <= width, f"{scheme}, {name}"


async def test_a_phone_shows_what_one_watches_for(platform: Platform, page: Page) -> None:
    await page.set_viewport_size({"width": 390, "height": 844})
    await running_job(platform, page)
    for seen in (page.get_by_role("button", name="Cancel"), page.get_by_role("progressbar").first):
        box = await seen.bounding_box()
        assert box is not None
        assert box["width"] > 40
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390


async def test_a_phone_shows_a_job_in_one_line(platform: Platform, page: Page) -> None:
    await page.set_viewport_size({"width": 390, "height": 844})
    await jobs_list(platform, page)
    await expect(page.locator("tbody tr", has_text="first").get_by_text("4 / 8")).to_be_visible()
    assert await page.locator(".panel > .scroll").evaluate("(one) => one.scrollWidth <= one.clientWidth")


RATIO = """
(element) => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (color) => {
    const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb(color).map((c) => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  let behind = element;
  while (rgb(getComputedStyle(behind).backgroundColor)[3] < 255 && behind.parentElement) behind = behind.parentElement;
  const [one, other] = [light(getComputedStyle(element).color), light(getComputedStyle(behind).backgroundColor)];
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_button_can_be_read_in_every_state(scheme: str, platform: Platform, page: Page) -> None:
    await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    job = await platform.new_job(suffix="paused")
    await job.start()
    await job.write(events(job.shape, until_step=2, is_ended=False))
    await job.stop()
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await expect(page.get_by_role("button", name="Resume")).to_be_visible()
    await page.get_by_role("button", name="Cancel").click()
    await check_states(page.get_by_role("alertdialog"))
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("alertdialog")).to_be_hidden()
    await check_states(page.locator("main"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("open_page", [jobs_list, new_job, models_list], ids=lambda one: one.__name__)
async def test_buttons_of_other_pages_and_links_that_look_like_them_can_be_read_in_every_state(
    open_page: Callable[[Platform, Page], Awaitable[None]],
    scheme: str,
    platform: Platform,
    page: Page,
    page_problems: PageProblems,
) -> None:
    page_problems.tolerated.append("400")  # of an order that is not whole yet
    await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    await open_page(platform, page)
    await check_states(page.locator("main"))


async def check_states(within: Locator) -> None:
    """Contrast of all its buttons, links among them: at rest, under the pointer, with the focus, pressed."""
    buttons = within.locator("button:enabled:visible, a.button:visible")
    await expect(buttons.first).to_be_visible()
    for button in await buttons.all():
        name = (await button.inner_text()).strip()
        ratios = {"rest": await button.evaluate(RATIO)}
        await button.hover()
        ratios["hover"] = await button.evaluate(RATIO)
        await within.page.mouse.down()
        ratios["pressed"] = await button.evaluate(RATIO)
        await within.page.mouse.move(0, 0)  # let go beside it, nothing is done
        await within.page.mouse.up()
        await button.focus()
        ratios["focus"] = await button.evaluate(RATIO)
        low = {state: ratio for state, ratio in ratios.items() if ratio < 4.5}
        assert low == {}, name


async def test_a_question_begins_with_doing_nothing_and_escape_takes_it_back(platform: Platform, page: Page) -> None:
    await question(platform, page)
    asked = page.get_by_role("alertdialog")
    await expect(asked.get_by_role("button", name="Keep it")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(asked).to_be_hidden()
    await page.get_by_role("button", name="Cancel").click()
    await page.keyboard.press("Enter")
    await expect(asked).to_be_hidden()
    await expect(page.locator(".badge").first).to_have_text("running")


async def test_a_row_is_a_link_that_opens_another_tab(platform: Platform, page: Page) -> None:
    await jobs_list(platform, page)
    box = await page.locator("tbody tr", has_text="first").locator("td").nth(2).bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    async with page.context.expect_page() as opened:
        await page.keyboard.down("Control")
        await page.mouse.click(*middle)
        await page.keyboard.up("Control")
    tab = await opened.value
    await expect(tab).to_have_url(re.compile(r"/jobs/ftjob-"))
    await expect(page).to_have_url(f"{platform.url}/")
    await page.mouse.click(*middle)
    await expect(page).to_have_url(re.compile(r"/jobs/ftjob-"))
