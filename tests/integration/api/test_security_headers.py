"""What browsers are told with every reply: every route, every refusal, every file of the dashboard."""

import re
from typing import Any

import httpx
import psycopg

from rft.platform import app as app_module
from tests.integration.api.test_strangers import routes
from tests.shared.running_api import Api

BROWSER = {"accept": "text/html,application/xhtml+xml"}
ALWAYS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
NOTHING = {"default-src": "'none'", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'"}
OUR_OWN = {name: "'self'" for name in ("script-src", "style-src", "img-src", "connect-src")}
PAGE = {**NOTHING, **OUR_OWN, "require-trusted-types-for": "'script'", "trusted-types": "'none'"}


def check(reply: httpx.Response, policy: dict[str, str]) -> None:
    """Each header once, as strict as it is."""
    where = f"{reply.request.method} {reply.request.url.path} {reply.status_code}"
    assert {name: reply.headers.get(name) for name in ALWAYS} == ALWAYS, where
    assert "camera=()" in reply.headers["permissions-policy"], where
    assert len(reply.headers.get_list("content-security-policy")) == 1, where
    told = dict(part.strip().split(" ", 1) for part in reply.headers["content-security-policy"].split(";"))
    assert told == policy, where
    assert "access-control-allow-origin" not in reply.headers, where


async def test_every_route_whatever_it_answers(api: Api) -> None:
    statuses: set[int] = set()
    async with httpx.AsyncClient(base_url=api.url, timeout=60) as caller:
        opened = {"/health": ["get"], "/openapi.json": ["get"], "/dashboard/session": ["get", "post", "delete"]}
        paths: dict[str, list[str]] = {**routes(), **opened}
        for path, methods in paths.items():
            for method in [*methods, "options", "put"]:
                for headers in ({}, {"authorization": f"Bearer {api.key}"}):
                    if path.endswith("/stream"):
                        continue
                    url = re.sub(r"\{[^}]+\}", "nothing", path)
                    reply = await caller.request(method, url, headers=headers, json={"nonsense": 1})
                    check(reply, NOTHING)
                    assert reply.headers["cache-control"] in ("no-store", "private, no-cache")
                    statuses.add(reply.status_code)
        check(await caller.get("/openai/v1/files", headers={"api-key": api.key}), NOTHING)
        check(await caller.get("/openai/files"), NOTHING)
    assert {200, 400, 401, 403, 404, 405} <= statuses


async def test_every_file_of_the_dashboard_and_every_address_of_its_own(api: Api) -> None:
    async with httpx.AsyncClient(base_url=api.url, headers=BROWSER, timeout=60.0) as browser:
        page = await browser.get("/")
        assert "<title>Agent RFT</title>" in page.text
        assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\son\w+=|style=|javascript:|data:", page.text)
        files = re.findall(r'(?:src|href)="(/[^"]+)"', page.text)
        assert {name.rpartition(".")[2] for name in files} == {"js", "css", "svg"}
        for path in (
            "/",
            "/index.html",
            "/jobs/ftjob-1",
            "/docs",
            "/redoc",
            *files,
            "/assets/gone.js",
            "/%00",
            "/../x",
        ):
            reply = await browser.get(path)
            assert reply.status_code in (200, 404), path
            check(reply, PAGE)
        assert (await browser.get("/docs")).text == page.text, "no page that brings scripts of others"
        check(await browser.post("/"), PAGE)
        check(await browser.head("/"), PAGE)


async def test_files_customers_wrote_are_saved_and_never_shown(api: Api) -> None:
    bearer = {"authorization": f"Bearer {api.key}"}
    async with httpx.AsyncClient(base_url=api.url, headers=bearer, timeout=60.0) as caller:
        made = await caller.post(
            "/v1/files",
            data={"purpose": "user_data"},
            files={"file": ("x.html", b"<script>alert(1)</script>", "text/html")},
        )
        reply = await caller.get(f"/v1/files/{made.json()['id']}/content")
        check(reply, NOTHING)
        assert reply.headers["content-type"] == "application/octet-stream"
        assert reply.headers["content-disposition"].startswith("attachment;")


async def test_a_crash_and_a_body_beyond_the_limit(api: Api, migrated_url: str) -> None:
    bearer = {"authorization": f"Bearer {api.key}"}
    async with httpx.AsyncClient(base_url=api.url, headers=bearer, timeout=60) as caller:
        too_large = await caller.post("/v1/fine_tuning/jobs", content=b" " * (9 << 20))
        async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
            await connection.execute("alter table files rename column purpose to secret_plan")
        crash = await caller.get("/v1/files")
    assert (too_large.status_code, crash.status_code) == (413, 500)
    check(too_large, NOTHING)
    check(crash, NOTHING)


def test_no_route_of_the_framework_shows_the_document(api: Api) -> None:
    made: Any = app_module.create_app(api.settings, has_reconciler=False)
    assert (made.docs_url, made.redoc_url, made.swagger_ui_oauth2_redirect_url) == (None, None, "/docs/oauth2-redirect")
    assert not [route.path for route in made.routes if "docs" in getattr(route, "path", "")]


async def test_a_stream_has_them_too(api: Api, client: Any, order: dict[str, Any]) -> None:
    job = await client.fine_tuning.jobs.create(**order)
    async with (
        httpx.AsyncClient(base_url=api.url, headers={"authorization": f"Bearer {api.key}"}, timeout=60.0) as caller,
        caller.stream("GET", f"/v1/fine_tuning/jobs/{job.id}/stream") as reply,
    ):
        assert reply.status_code == 200
        check(reply, NOTHING)
