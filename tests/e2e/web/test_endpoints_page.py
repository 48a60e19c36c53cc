"""Endpoints in a browser, over all jobs: how they fare, what is in flight, which are registered, rehearsals."""

import json
import re
import time

import httpx
from playwright.async_api import Page, expect

from rft.core.endpoint_load import EndpointLoad, LimitReason, NamedLoad
from rft.core.events import CallsFailed
from rft.core.failed_call import FailedCall
from rft.core.failure import FailureCode, Stage
from rft.core.progress import Activity, RoundProgress, RunProgress
from rft.core.rollout import Split
from rft.testing.endpoint import ScriptedEndpoint
from rft.testing.loopback import LoopbackEndpoint
from tests.e2e.web.run_records import events
from tests.e2e.web.seeded_platform import Platform
from tests.e2e.web.watched_page import sign_in

DEAD = "http://127.0.0.1:9/lookup"
ROW = json.dumps({"messages": [{"role": "user", "content": "How much?"}], "answer": "64"}) + "\n"


async def calling_jobs(platform: Platform) -> None:
    """Two jobs that call the same host; one is in the middle of a step."""
    for suffix, failing in (("steady", 0.0), ("shaky", 0.4)):
        job = await platform.new_job(suffix=suffix, failing_share=failing)
        await job.start()
        await job.write(events(job.shape, until_step=2, is_ended=False))
    now = RoundProgress(
        step=3, split=Split.TRAIN, rollouts=32, ended=4, calling={"search": 9}, queued={"search": 4}, grading=2
    )
    at = time.time()
    await job.write([failed_calls(at)])
    lowered = EndpointLoad(
        limit=24, reason=LimitReason.SLOWER, changed_at=at - 120, in_flight=5, queued=4, calls_per_s=3.2
    )
    down = EndpointLoad(
        limit=0, reason=LimitReason.DOWN, changed_at=at - 60, in_flight=0, queued=2, calls_per_s=0.0,
        breaker="open", down_since=at - 60, waits_until=at + 300,
    )  # fmt: skip
    loads = (
        NamedLoad(stage=Stage.TOOL, endpoint="search", is_shared=False, load=lowered),
        NamedLoad(stage=Stage.GRADER, endpoint="answer_credit", is_shared=True, load=down),
    )
    await job.tell(RunProgress(activity=Activity.ROLLING_OUT, since=0.0, round=now, endpoints=loads))


def failed_calls(at: float) -> CallsFailed:
    """Two of a tool, the newer one with a page for people."""
    arguments = json.dumps({"type": "function_call", "name": "cat", "arguments": '{"path": "reports/2025.txt"}'})
    page = "<html><body><h1>502 Bad Gateway</h1></body></html>"
    return CallsFailed(
        calls=(
            FailedCall(
                at - 90, "trace_1", Stage.TOOL, "cat", "call_1", 1, FailureCode.TIMEOUT, None,
                "gave no whole reply within 10 s", arguments, None,
            ),
            FailedCall(
                at - 30, "trace_2", Stage.TOOL, "cat", "call_2", 2, FailureCode.SERVER_ERROR, 502,
                "answered 502 Bad Gateway", arguments, page,
            ),
        )
    )  # fmt: skip


async def open_failed_calls(page: Page) -> None:
    """Of the endpoint in the most trouble."""
    row = page.locator("table.endpoints tbody tr", has_text="cat").filter(has_text="shaky")
    await row.get_by_role("button", name="request and reply").click()


async def test_calls_that_went_wrong_stand_with_request_and_reply_behind_a_fold(platform: Platform, page: Page) -> None:
    await calling_jobs(platform)
    await sign_in(page, platform.url, platform.key, "/endpoints")
    await open_failed_calls(page)
    failed = page.get_by_role("region", name="Failed calls of cat")
    newest, older = failed.locator("details").nth(0), failed.locator("details").nth(1)
    await expect(newest.get_by_role("region", name="Reply")).to_have_text(
        "<html><body><h1>502 Bad Gateway</h1></body></html>"
    )
    await expect(newest.get_by_role("region", name="Request")).to_contain_text("reports/2025.txt")
    await expect(older.get_by_role("region", name="Request")).to_be_hidden()
    await older.locator("summary").click()
    await expect(older).to_contain_text("It gave no whole reply within 10 s.")
    await expect(older).to_contain_text("None came.")
    await page.get_by_role("button", name="request and reply", expanded=True).click()
    await expect(failed).to_be_hidden()


async def register(platform: Platform, tool_url: str = DEAD, grader_url: str = DEAD) -> None:
    """A tool, a grader and a dataset for a rehearsal."""
    async with httpx.AsyncClient(
        base_url=platform.url, headers={"authorization": f"Bearer {platform.key}"}, timeout=60
    ) as program:
        tool = {"name": "lookup", "server_url": tool_url, "parameters": {"type": "object"}}
        (await program.post("/v1/tools", json=tool)).raise_for_status()
        grader = {"type": "endpoint", "name": "credit", "url": grader_url}
        (await program.post("/v1/graders", json={"grader": grader})).raise_for_status()
        file = {"file": ("rows.jsonl", ROW.encode())}
        (await program.post("/v1/files", data={"purpose": "fine-tune"}, files=file)).raise_for_status()


async def test_one_host_stands_with_all_jobs_that_call_it(platform: Platform, page: Page) -> None:
    await calling_jobs(platform)
    await sign_in(page, platform.url, platform.key, "/endpoints")
    host = page.get_by_role("region", name="Host 127.0.0.1:9301")
    await expect(host.locator("header")).to_contain_text("Calls in flight: 11 (4 queued here)")
    await expect(host.locator("tbody tr")).to_have_count(8)
    busy = host.locator("tbody tr", has_text="search").filter(has_text="shaky")
    await expect(busy).to_contain_text("9 (4 queued here)")
    await expect(busy).to_contain_text("3.2 calls/s")
    lowered = r"24 at once: lowered, since with more calls answers only came later, \d+ min ago"
    await expect(busy).to_contain_text(re.compile(lowered))
    judge = host.locator("tbody tr", has_text="answer_credit").filter(has_text="shaky")
    await expect(judge).to_contain_text("next probe in")
    await expect(host.locator("tbody tr", has_text="search").filter(has_text="steady")).to_contain_text("none")
    await expect(page.get_by_role("region", name="Host")).to_have_count(1)


async def test_a_rehearsal_of_what_is_registered_is_ordered_and_cancelled(platform: Platform, page: Page) -> None:
    async with LoopbackEndpoint(ScriptedEndpoint()) as customer:
        await register(platform, customer.tool_url, customer.grader_url)
        await order_rehearsal(platform, page)
    played = page.locator(".rehearsals li")
    await expect(played).to_contain_text("queued")
    await played.get_by_role("button", name="Cancel").click()
    await expect(played).to_contain_text("cancelled")


async def test_a_rehearsal_is_cancelled_from_every_page(platform: Platform, page: Page) -> None:
    async with LoopbackEndpoint(ScriptedEndpoint()) as customer:
        await register(platform, customer.tool_url, customer.grader_url)
        await order_rehearsal(platform, page)
    await page.goto(f"{platform.url}/settings")
    await expect(page.get_by_role("heading", name="API keys")).to_be_visible()
    await page.keyboard.press("Control+k")
    await page.keyboard.type("cancel reh")
    await expect(page.get_by_role("option", selected=True)).to_have_text(re.compile("^Cancel the rehearsal"))
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{platform.url}/endpoints")
    await expect(page.locator(".rehearsals li")).to_contain_text("cancelled")


async def order_rehearsal(platform: Platform, page: Page) -> None:
    """Of everything that is registered; it is accepted."""
    await sign_in(page, platform.url, platform.key, "/endpoints")
    registered = page.get_by_role("region", name="Registered tools and graders").first
    await expect(registered.get_by_role("row", name="lookup tool")).to_contain_text("never")
    await page.get_by_role("button", name="Rehearse").click()
    form = page.get_by_role("form", name="New rehearsal")
    await form.get_by_label("Dataset").select_option(index=1)
    await form.get_by_label("Grader").select_option(index=1)
    await form.get_by_label("lookup").check()
    await form.get_by_role("button", name="Play the burst").click()
    await expect(form).to_be_hidden()
