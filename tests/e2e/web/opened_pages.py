"""Every page of the dashboard, opened with something on it."""

from collections.abc import Awaitable, Callable

from playwright.async_api import Page, expect

from rft.core.events import RolloutDone
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
from tests.e2e.web.watched_page import sign_in

OpenPage = Callable[[Platform, Page], Awaitable[None]]


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
    meaning = page.get_by_role("region", name="What it means")
    await expect(meaning).to_contain_text("Rollouts")
    await expect(meaning.locator(".is-old")).to_have_count(0)  # Paler, until the order's last change is answered.


async def running_job(platform: Platform, page: Page) -> None:
    job = await platform.new_job(suffix="running", failing_share=0.2)
    await job.start()
    await job.write(events(job.shape, until_step=4, is_ended=False))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await expect(page.locator(".chart-canvas canvas").first).to_be_visible()
    await page.get_by_text("Diagnostics", exact=True).click()
    await expect(page.get_by_role("heading", name="Entropy")).to_be_visible()
    await expect(page.locator("table.rollouts tbody tr").first).to_be_visible()


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
    await page.get_by_label("API key").fill("rft_nobody_knows")
    await expect(page.get_by_role("button", name="Sign in")).to_be_enabled()


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


async def key_list(platform: Platform, page: Page) -> None:
    await jobs_list(platform, page)
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()


OPENED: dict[str, OpenPage] = {
    each.__name__: each
    for each in (
        job_variance, endpoints, datasets, dropped_dataset, settings_page, models_list, chat,
        evals_list, new_eval, eval_definition, eval_run, eval_comparison,
        rollouts_list, rollout_group,
        sign_in_form, empty_list, jobs_list, comparison, new_job,
        running_job, trace, trace_tokens, policy_change, two_traces, no_such_page, question, palette, key_list,
    )
}  # fmt: skip
