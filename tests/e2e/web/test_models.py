"""Models in a browser: what each job made, how it is used, and talking to one."""

import asyncio
import json
from typing import Any

from playwright.async_api import Page, Route, expect

from tests.e2e.web.run_records import events
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import PageProblems, sign_in

USAGE = {"prompt_tokens": 120, "cached_tokens": 0, "completion_tokens": 30, "reasoning_tokens": 0}
HOSTILE = "<img src=x onerror=alert(1)> 64"
CONVERSATION: list[dict[str, Any]] = [
    {"type": "text", "turn": 0, "text": "I look it up."},
    {
        "type": "turn",
        "turn": 0,
        "content": "I look it up.",
        "reasoning_content": "In reports.",
        "usage": None,
    },
    {"type": "call", "turn": 0, "call_id": "c1", "name": "search", "arguments": '{"query": "assets"}'},
    {
        "type": "result",
        "turn": 0,
        "call_id": "c1",
        "name": "search",
        "output": HOSTILE,
        "error_code": None,
        "status": 200,
        "attempts": 1,
        "latency_s": 0.25,
    },
    {"type": "text", "turn": 1, "text": "64"},
    {"type": "turn", "turn": 1, "content": "64", "reasoning_content": None, "usage": None},
    {
        "type": "end",
        "conversation": {
            "messages": [{"role": "assistant", "content": "64"}],
            "stop_reason": "completed",
            "failure": None,
            "usage": USAGE,
            "duration_s": 1.5,
        },
    },
]


async def trained(platform: Platform) -> str:
    """The id of a job that succeeded."""
    job = await platform.new_job(suffix="done")
    await job.start()
    await job.write(events(job.shape))
    return job.id


async def answer_chat(page: Page) -> list[dict[str, Any]]:
    """Answers in the model's place, which no process serves here; the bodies of the requests as they come."""
    bodies: list[dict[str, Any]] = []

    async def answer(route: Route) -> None:
        bodies.append(json.loads(route.request.post_data or "{}"))
        lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in CONVERSATION)
        await route.fulfill(status=200, content_type="text/event-stream", body=lines)

    await page.route("**/playground", answer)
    return bodies


async def say(page: Page, said: str) -> None:
    await page.get_by_label("Message").fill(said)
    await page.keyboard.press("Enter")


async def test_a_jobs_models_say_how_good_they_are_and_how_they_are_used(platform: Platform, page: Page) -> None:
    job_id = await trained(platform)
    await sign_in(page, platform.url, platform.key, "/models")
    made = page.get_by_role("region", name=f"Models of {job_id}")
    final = made.locator(".models > li", has_text="the job's model")
    await expect(final.locator(".model-figure")).to_contain_text("95 %:")
    await final.get_by_role("button", name="Use it").click()
    await expect(final.get_by_role("region", name="Code for the official SDK")).to_contain_text('model="ft:starter')
    adapter = await final.get_by_role("link", name="Adapter").get_attribute("href")
    assert adapter is not None
    assert adapter.endswith("/adapter")
    count = await made.locator(".models > li").count()
    await made.locator(".models > li").last.get_by_role("button", name="Delete").click()
    await page.get_by_role("button", name="Yes, delete").click()
    await expect(made.locator(".models > li")).to_have_count(count - 1)


async def test_a_conversation_shows_the_calls_and_goes_on_with_what_was_said(platform: Platform, page: Page) -> None:
    await trained(platform)
    bodies = await answer_chat(page)
    await sign_in(page, platform.url, platform.key, "/models")
    await page.get_by_role("link", name="Chat").first.click()
    await say(page, "How large are the assets?")
    call = page.get_by_role("article", name="Call of search")
    await expect(call).to_contain_text("HTTP 200, 0.25 s")
    await expect(call.get_by_role("region", name="Answer of search")).to_have_text(HOSTILE)
    await expect(page.get_by_text("120 tokens read, 30 written, 1.5 s")).to_be_visible()
    await expect(page.get_by_role("button", name="Send")).to_be_visible()
    await say(page, "Thanks")
    await expect(page.locator(".exchange")).to_have_count(2)
    await expect(page.get_by_role("button", name="Send")).to_be_visible()
    assert [message["content"] for message in bodies[1]["messages"]] == ["How large are the assets?", "64", "Thanks"]
    assert bodies[0]["model"].startswith("ft:starter")


async def test_a_model_that_cannot_answer_says_why(platform: Platform, page: Page, page_problems: PageProblems) -> None:
    page_problems.tolerated.append("40[04]|50[03]")
    job_id = await trained(platform)
    await sign_in(page, platform.url, platform.key, "/models")
    await page.get_by_role("region", name=f"Models of {job_id}").get_by_role("link", name="Chat").first.click()
    await say(page, "Hello?")
    await expect(page.get_by_role("alert")).not_to_be_empty()
    await expect(page.get_by_role("button", name="Send")).to_be_visible()


async def test_leaving_the_page_ends_the_answer(platform: Platform, page: Page, page_problems: PageProblems) -> None:
    page_problems.tolerated.append("ERR_ABORTED")
    job_id = await trained(platform)
    await sign_in(page, platform.url, platform.key, "/models")
    await page.get_by_role("region", name=f"Models of {job_id}").get_by_role("link", name="Chat").first.click()
    is_over = asyncio.Event()
    await page.route("**/playground", lambda _: is_over.wait())
    await say(page, "Hello?")
    await expect(page.get_by_text("Waiting for the model")).to_be_visible()
    async with page.expect_event("requestfailed", lambda request: request.url.endswith("/playground")):
        await page.get_by_role("link", name="Datasets").click()
    is_over.set()
    await page.unroute_all(behavior="ignoreErrors")
