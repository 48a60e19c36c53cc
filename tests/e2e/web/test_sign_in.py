"""Ways into the dashboard, and that no script, no storage and no other page gets hold of what signs in."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from playwright.async_api import Page, expect

from rft.platform.api.key_repository import create_key
from tests.e2e.web.run_records import events
from tests.e2e.web.seeded_platform import Platform, SeededJob
from tests.e2e.web.watched_page import PageProblems, sign_in, sign_in_link

KEPT = """async () => ({
    cookie: document.cookie, local: localStorage.length, session: sessionStorage.length,
    databases: (await indexedDB.databases()).length, caches: (await caches.keys()).length,
})"""
NOTHING = {"cookie": "", "local": 0, "session": 0, "databases": 0, "caches": 0}
ENDED = "Your session has ended"


async def running(platform: Platform) -> SeededJob:
    """A job that has made two steps."""
    job = await platform.new_job(suffix="watched")
    await job.start()
    await job.write(events(job.shape, until_step=2, is_ended=False))
    return job


async def test_a_link_signs_in_and_leaves_nothing_behind_that_a_script_could_read(
    platform: Platform, page: Page
) -> None:
    link = await sign_in_link(platform.url, platform.key)
    await page.goto(link)
    await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    await expect(page).to_have_url(f"{platform.url}/")
    assert await page.evaluate(KEPT) == NOTHING
    assert await page.evaluate("history.length") <= 2, "the address with the token must be replaced, not left behind"
    (cookie,) = await page.context.cookies()
    assert (cookie.get("httpOnly"), cookie.get("sameSite"), cookie.get("path")) == (True, "Strict", "/")
    assert str(cookie.get("value")) not in await page.content()
    await page.reload()
    await expect(page.get_by_role("heading", name="Jobs")).to_be_visible()


async def test_a_used_link_signs_nobody_in_but_harms_nobody_who_is(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    page_problems.tolerated.extend(("401", "404"))  # There is no job x, if the page comes to ask for it.
    link = await sign_in_link(platform.url, platform.key)
    await page.goto(link)
    await expect(page.get_by_text("No jobs yet")).to_be_visible()
    await page.goto(f"{platform.url}/jobs/x")
    await page.goto(link)
    await expect(page.get_by_text("No jobs yet")).to_be_visible()
    await page.context.clear_cookies()
    await page.goto(f"{platform.url}/jobs/x")
    await page.goto(link)
    await expect(page.get_by_role("alert")).to_contain_text("used before")
    await expect(page).to_have_url(f"{platform.url}/")
    # Pasted over the address of a page that is there, a link changes the fragment only.
    fresh = await sign_in_link(platform.url, platform.key)
    await page.evaluate("address => { location.href = address }", fresh)
    await expect(page.get_by_text("No jobs yet")).to_be_visible()
    await expect(page).to_have_url(f"{platform.url}/")


async def test_without_a_session_a_form_asks_for_a_key(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    page_problems.tolerated.append("401")
    await page.goto(f"{platform.url}/jobs/ftjob-x")
    field = page.get_by_label("API key")
    await expect(field).to_be_focused()
    await field.fill("rft_wrong_key")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("Incorrect API key")
    assert await page.evaluate(KEPT) == NOTHING

    await page.goto(platform.url)
    await page.get_by_label("API key").fill(platform.key)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_text("No jobs yet")).to_be_visible()
    assert await page.evaluate(KEPT) == NOTHING

    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_label("API key")).to_be_visible()
    await expect(page.get_by_role("alert")).to_have_count(0)
    assert await page.context.cookies() == []
    assert await page.evaluate("fetch('/v1/models').then(reply => reply.status)") == 401


async def test_a_revoked_key_ends_what_is_open(platform: Platform, page: Page, page_problems: PageProblems) -> None:
    page_problems.tolerated.append("401")
    job = await running(platform)
    async with platform.database.transaction() as connection:
        key = await create_key(connection, "guest")
    await sign_in(page, platform.url, key, f"/jobs/{job.id}")
    await expect(page.locator(".liveness")).to_have_text("live")
    async with platform.database.transaction() as connection:
        await connection.execute("update api_keys set revoked_at = now() where name = 'guest'")
    await expect(page.get_by_role("alert")).to_contain_text(ENDED)
    await expect(page.get_by_label("API key")).to_be_visible()


async def test_a_session_that_is_over_leads_back_to_the_form(
    platform: Platform, page: Page, page_problems: PageProblems
) -> None:
    page_problems.tolerated.append("401")
    await sign_in(page, platform.url, platform.key)
    await expect(page.get_by_text("No jobs yet")).to_be_visible()
    async with platform.database.transaction() as connection:
        await connection.execute("update sessions set expires_at = now()")
    await expect(page.get_by_role("alert")).to_contain_text(ENDED)


class PlainPage(BaseHTTPRequestHandler):
    """A page without any policy of its own."""

    cookies: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        """Whatever is asked for."""
        self.cookies.append(self.headers.get("cookie", ""))
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<p>hello</p>")


@pytest.fixture
def neighbour() -> Iterator[str]:
    """Another server of the same host: the same site, for a browser, whose cookies go to both."""
    PlainPage.cookies.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), PlainPage) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def test_another_page_of_the_same_host_can_change_nothing_and_read_nothing(
    platform: Platform, page: Page, page_problems: PageProblems, neighbour: str
) -> None:
    page_problems.tolerated += [
        "403",
        "ERR_",
        "CORS",
        "request to elsewhere",
        "Failed to fetch",
        "Content Security",
        "violates",
    ]
    job = await running(platform)
    await sign_in(page, platform.url, platform.key)
    await page.goto(neighbour)
    assert "rft_session" in PlainPage.cookies[0], "cookies know no ports"
    cancel = f"{platform.url}/v1/fine_tuning/jobs/{job.id}/cancel"
    asked = (
        "address => fetch(address, {method: 'POST', mode: 'no-cors', credentials: 'include'}).then(() => 1, () => 1)"
    )
    await page.evaluate(asked, cancel)
    async with platform.database.transaction() as connection:
        cursor = await connection.execute("select is_cancel_requested, status from jobs where id = %s", (job.id,))
        assert await cursor.fetchone() == (False, "running")
    for mode in ("cors", "no-cors"):
        read = f"address => fetch(address, {{mode: '{mode}', credentials: 'include'}}).then(r => r.text(), () => '')"
        assert await page.evaluate(read, f"{platform.url}/v1/fine_tuning/jobs") == ""
    await page.set_content(f'<iframe src="{platform.url}/" onload="window.framed = true"></iframe>')
    await page.wait_for_function("window.framed")
    assert await page.frames[-1].evaluate("document.body?.innerText ?? ''") != "Jobs"

    await page.goto(f"{platform.url}/jobs/{job.id}")
    await expect(page.locator(".badge").first).to_have_text("running")
    await page.get_by_role("button", name="Pause").click()
    await expect(page.locator(".badge").first).not_to_have_text("running")


async def test_nothing_written_into_the_page_runs(platform: Platform, page: Page, page_problems: PageProblems) -> None:
    page_problems.tolerated += ["Content Security Policy", "violates", "This document requires"]
    await sign_in(page, platform.url, platform.key)
    refused = await page.evaluate(
        """() => [
            () => { document.createElement("script").src = "/v1/files/file-mine/content"; },
            () => { document.body.innerHTML += "<img src=x onerror='window.hacked = true'>"; },
            () => { document.body.setAttribute("onclick", "window.hacked = true"); document.body.click();
                    if (!window.hacked) throw new Error("not run"); },
        ].map((attempt) => { try { attempt(); return false; } catch { return true; } })"""
    )
    assert refused == [True] * 3
    assert await page.evaluate("window.hacked") is None
    assert page_problems.problems
