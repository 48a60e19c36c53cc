"""A job ordered in the browser: told what it means, tools and grader tried, mistakes at their field."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest_asyncio
from playwright.async_api import FilePayload, Page, Route, expect

from rft.testing.endpoint import ScriptedEndpoint, ScriptedTools
from rft.testing.loopback import LoopbackEndpoint
from tests.e2e.web.run_records import events
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import PageProblems, sign_in
from tests.shared.running_api import ROW

SECRET = "nobody-shows-this"
ACCOUNT = 12345678901234567890
"""More digits than a number of a browser has."""
TRAIN_ROW = json.dumps({**json.loads(ROW), "account": ACCOUNT}).encode() + b"\n"
TRAIN = FilePayload(name="train.jsonl", mimeType="application/jsonl", buffer=TRAIN_ROW * 10)


@pytest_asyncio.fixture(loop_scope="session")
async def customer() -> AsyncIterator[LoopbackEndpoint]:
    """The customer's tool."""
    tools = ScriptedTools({"search": lambda arguments, _: f"nothing about {arguments['query']}"})
    async with LoopbackEndpoint(ScriptedEndpoint(tools)) as endpoint:
        yield endpoint


async def filled_form(platform: Platform, page: Page, tool_url: str) -> None:
    """A whole order: an uploaded file, a tool with a secret, the grader as it comes."""
    await sign_in(page, platform.url, platform.key, "/new")
    await page.get_by_label("Base model").select_option("starter")
    await page.get_by_label("Choose a file").set_input_files(TRAIN)
    await expect(page.get_by_label("Training file")).to_contain_text("train.jsonl (10 rows)")
    await expect(page.get_by_text("How much?")).to_be_visible()
    await page.get_by_role("button", name="Add a tool by its URL").click()
    tool = page.get_by_role("group", name="Tool 1")
    await tool.get_by_label("URL").fill(tool_url)
    await tool.get_by_role("button", name="Add a header").click()
    await tool.get_by_label("Name of header 1").fill("X-Key")
    await tool.get_by_label("Value of header 1").fill(SECRET)
    await tool.get_by_label("Name", exact=True).fill("search")


async def test_a_job_is_ordered_after_everything_was_tried(
    platform: Platform, page: Page, page_problems: PageProblems, customer: LoopbackEndpoint
) -> None:
    page_problems.tolerated.append("400")  # of orders that are not whole yet
    await filled_form(platform, page, customer.tool_url)
    meaning = page.get_by_role("region", name="What it means")
    await expect(meaning).to_contain_text("assumed: no job with it has run")

    await page.get_by_label("Rows per step").fill("0")
    await expect(page.get_by_text("a whole number from 1 to 256").first).to_be_visible()
    await expect(page.get_by_label("Rows per step")).to_have_attribute("aria-invalid", "true")
    await expect(page.get_by_role("button", name="Create the job")).to_be_disabled()
    await page.get_by_label("Rows per step").fill("5")
    await page.get_by_label("Epochs").fill("2")
    await expect(meaning).to_contain_text("Steps4Rollouts160Burst40")
    await expect(page.get_by_label("Compute multiplier")).to_have_attribute("placeholder", "auto: 1")

    tool = page.get_by_role("group", name="search")
    await tool.get_by_label("Arguments to try").fill('{"query": "total"}')
    await tool.get_by_role("button", name="Call it once").click()
    await expect(tool.get_by_role("status")).to_contain_text("It answered within")
    await expect(tool.get_by_role("region", name="Request")).to_contain_text('"type": "function_call"')
    await expect(tool.get_by_role("region", name="Reply")).to_contain_text("nothing about total")
    await expect(page.get_by_role("region", name="The row's other fields")).to_contain_text(f'"account": {ACCOUNT}')
    assert json.loads(customer.endpoint.calls[-1].body)["item"]["account"] == ACCOUNT

    grader = page.get_by_role("region", name="Grader")
    await expect(grader.get_by_text("On row 1: 7")).to_be_visible()
    await grader.get_by_label("An answer to the previewed row").fill("7")
    await grader.get_by_role("button", name="Grade this answer").click()
    await expect(grader.get_by_role("status")).to_contain_text("Reward 1.000")

    code = page.get_by_role("region", name="Code", exact=True)
    await expect(code).to_contain_text('"headers": {"X-Key": os.environ["SEARCH_X_KEY"]}')
    assert SECRET not in await page.locator("main").inner_text()
    assert SECRET not in await page.evaluate("JSON.stringify([location.href, {...localStorage}, {...sessionStorage}])")

    await page.get_by_role("button", name="Create the job").click()
    await page.wait_for_url("**/jobs/ftjob-*")
    await expect(page.get_by_role("heading", name="starter")).to_be_visible()
    job = await created(platform)
    assert job["method"]["reinforcement"]["tools"][0]["headers"] == {"X-Key": "**********"}
    assert job["method"]["reinforcement"]["hyperparameters"]["batch_size"] == 5


async def test_an_order_whose_reply_was_lost_is_one_job_when_it_is_sent_again(
    platform: Platform, page: Page, page_problems: PageProblems, customer: LoopbackEndpoint
) -> None:
    page_problems.tolerated += ["400", "ERR_FAILED"]

    async def lose_the_reply(route: Route) -> None:
        await route.fetch()
        await route.abort()

    await filled_form(platform, page, customer.tool_url)
    await page.route("**/v1/fine_tuning/jobs", lose_the_reply, times=1)
    await page.get_by_role("button", name="Create the job").click()
    await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    first = await created(platform)
    await page.get_by_role("button", name="Create the job").click()
    await page.wait_for_url("**/jobs/ftjob-*")
    assert (await created(platform))["id"] == first["id"]


async def test_an_order_under_way_is_not_changed_and_one_that_is_left_is_found_again(
    platform: Platform, page: Page, page_problems: PageProblems, customer: LoopbackEndpoint
) -> None:
    page_problems.tolerated += ["400", "ERR_FAILED"]
    may_end = asyncio.Event()

    async def refuse_late(route: Route) -> None:
        await may_end.wait()
        await route.abort()

    await filled_form(platform, page, customer.tool_url)
    await page.get_by_label("Epochs").fill("2")
    await page.route("**/v1/fine_tuning/jobs", refuse_late, times=1)
    await page.get_by_role("button", name="Create the job").click()
    await expect(page.get_by_label("Epochs")).to_be_disabled()
    may_end.set()
    await expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    await expect(page.get_by_label("Epochs")).to_be_enabled()

    await page.get_by_role("link", name="Datasets").click()
    await expect(page.get_by_role("heading", name="Datasets")).to_be_visible()
    await page.go_back()
    await expect(page.get_by_text("As you left it")).to_be_visible()
    await expect(page.get_by_label("Epochs")).to_have_value("2")
    await expect(page.get_by_label("Name of header 1")).to_have_value("X-Key")
    await expect(page.get_by_label("Value of header 1")).to_have_value("")
    await page.get_by_role("button", name="Start over").click()
    await expect(page.get_by_label("Epochs")).to_have_value("")
    await expect(page.get_by_text("As you left it")).to_be_hidden()


async def created(platform: Platform) -> dict[str, Any]:
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {platform.key}"}, timeout=60.0) as http:
        page = (await http.get(f"{platform.url}/v1/fine_tuning/jobs")).json()
    return page["data"][0]


async def test_an_old_job_is_the_beginning_of_a_new_one(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    page_problems.tolerated.append("40[04]")  # the seeded job's files are no files
    job = await platform.new_job(suffix="first try")
    await job.start()
    await job.write(events(job.shape, until_step=1, is_ended=False))
    await sign_in(page, platform.url, platform.key, f"/jobs/{job.id}")
    await page.get_by_role("link", name="Clone").click()
    await expect(page).to_have_url(f"{platform.url}/new?from={job.id}")
    await expect(page.get_by_label("Name", exact=True).first).to_have_value("first try")
    await expect(page.get_by_label("Rows per step")).to_have_value("4")
    await expect(page.get_by_label("Epochs")).to_have_value("")
    await expect(page.get_by_role("group", name="cat").get_by_label("URL")).to_have_value(
        "http://127.0.0.1:9301/tools/cat"
    )
    await expect(page.get_by_role("region", name="Grader").get_by_label("Kind")).to_have_value("endpoint")
    await expect(page.get_by_text("does not exist").first).to_be_visible()


async def test_parts_of_a_grader_make_one_reward(
    platform: Platform, page: Page, page_problems: PageProblems, customer: LoopbackEndpoint
) -> None:
    page_problems.tolerated.append("400")
    await filled_form(platform, page, customer.tool_url)
    grader = page.get_by_role("region", name="Grader")
    await grader.get_by_label("Kind").select_option("multi")
    for _ in range(2):
        await grader.get_by_role("button", name="Add a grader").click()
    await grader.get_by_role("group", name="part_2").get_by_label("Kind").select_option("python")
    await grader.get_by_label("Formula", exact=True).fill("(part_1 + part_3) / 2")
    await expect(grader.get_by_text("part_3").last).to_be_visible()
    await expect(grader.get_by_label("Formula", exact=True)).to_have_attribute("aria-invalid", "true")
    await grader.get_by_label("Formula", exact=True).fill("part_1 / 2")
    await grader.get_by_label("An answer to the previewed row").fill("7")
    await grader.get_by_role("button", name="Grade this answer").click()
    await expect(grader.get_by_role("region", name="Reply")).to_contain_text('"sub_rewards"')
    shown = json.loads(await grader.get_by_role("region", name="Reply").inner_text())
    assert shown["sub_rewards"]["part_1"] == 1


async def test_each_kind_of_grader_has_its_own_form(
    platform: Platform, page: Page, page_problems: PageProblems, customer: LoopbackEndpoint
) -> None:
    page_problems.tolerated.append("400")  # no judge is configured
    await filled_form(platform, page, customer.tool_url)
    grader = page.get_by_role("region", name="Grader")
    kind = grader.get_by_label("Kind")
    code = page.get_by_role("region", name="Code", exact=True)

    await kind.select_option("text_similarity")
    await grader.get_by_label("Input").fill("{{sample.output_text}}")
    await grader.get_by_label("Reference").fill("{{item.answer}}")
    await grader.get_by_label("Metric").select_option("rouge_l")
    await expect(code).to_contain_text('"evaluation_metric": "rouge_l"')
    await grader.get_by_label("An answer to the previewed row").fill("7")
    await grader.get_by_role("button", name="Grade this answer").click()
    await expect(grader.get_by_role("status")).to_contain_text("Reward 1.000")

    await kind.select_option("label_model")
    await grader.get_by_label("Judge").fill("judge-small")
    await grader.get_by_label("Labels", exact=True).fill("right\nwrong")
    await grader.get_by_label("Passing labels").fill("right")
    await grader.get_by_label("Content of message 1").fill("Is {{sample.output_text}} the sum?")
    await expect(code).to_contain_text(re.compile(r'"labels": \["right", "wrong"\]'))
    await expect(code).to_contain_text(re.compile(r'"passing_labels": \["right"\]'))
    await expect(code).to_contain_text('"content": "Is {{sample.output_text}} the sum?"')

    await kind.select_option("ruler")
    await grader.get_by_label("Judge").fill("judge-small")
    await grader.get_by_label("Rubric").fill("Fewer calls are better.")
    await expect(code).to_contain_text('"rubric": "Fewer calls are better."')


async def test_what_is_registered_is_chosen_and_tried(
    platform: Platform, page: Page, page_problems: PageProblems, customer: LoopbackEndpoint
) -> None:
    page_problems.tolerated.append("400")
    grader = {
        "type": "string_check",
        "name": "exact",
        "input": "{{sample.output_text}}",
        "reference": "7",
        "operation": "eq",
    }
    async with httpx.AsyncClient(
        base_url=platform.url, headers={"authorization": f"Bearer {platform.key}"}, timeout=60.0
    ) as http:
        (await http.post("/v1/tools", json={"name": "cat", "server_url": customer.tool_url})).raise_for_status()
        (await http.post("/v1/graders", json={"grader": grader})).raise_for_status()
    await filled_form(platform, page, customer.tool_url)
    await page.get_by_role("button", name="Add a registered tool").click()
    tool = page.get_by_role("group", name="cat")
    await tool.get_by_role("button", name="Call it once").click()
    await expect(tool.get_by_role("status")).to_contain_text("no tool cat")
    await expect(tool.get_by_role("region", name="Request")).to_contain_text('"name": "cat"')
    grading = page.get_by_role("region", name="Grader")
    await grading.get_by_label("Kind").select_option("A registered one")
    await grading.get_by_label("An answer to the previewed row").fill("7")
    await grading.get_by_role("button", name="Grade this answer").click()
    await expect(grading.get_by_role("status")).to_contain_text("Reward 1.000")
    await page.get_by_role("button", name="Create the job").click()
    await page.wait_for_url("**/jobs/ftjob-*")
    ordered = (await created(platform))["method"]["reinforcement"]
    assert [one["name"] for one in ordered["tools"]] == ["search", "cat"]
    assert ordered["grader"]["name"] == "exact"
