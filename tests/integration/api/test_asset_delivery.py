"""The dashboard's files cross the wire once and compressed; the page that names them is asked for each time."""

import gzip
import re

import httpx

from tests.shared.running_api import Api

WORTH_COMPRESSING, LARGE = 1024, 10_000
BROWSER = {"accept": "text/html,*/*"}


async def test_hashed_files_are_compressed_and_kept_for_good(api: Api) -> None:
    async with httpx.AsyncClient(base_url=api.url, headers=BROWSER, timeout=60.0) as browser:
        page = (await browser.get("/")).text
        files = re.findall(r'(?:src|href)="(/assets/[^"]+\.(?:js|css))"', page)
        assert {path.rpartition(".")[2] for path in files} == {"js", "css"}
        for path in files:
            request = browser.build_request("GET", path, headers={"accept-encoding": "gzip"})
            reply = await browser.send(request, stream=True)
            raw = b"".join([chunk async for chunk in reply.aiter_raw()])
            plain = await browser.get(path, headers={"accept-encoding": "identity"})
            assert "content-encoding" not in plain.headers
            if len(plain.content) < WORTH_COMPRESSING:
                assert raw == plain.content
            else:
                assert reply.headers["content-encoding"] == "gzip"
                assert gzip.decompress(raw) == plain.content
                assert len(raw) < len(plain.content) / (2 if len(plain.content) > LARGE else 1)
                assert "accept-encoding" in reply.headers["vary"].lower()
            for answered in (reply, plain):
                assert answered.headers["cache-control"] == "public, max-age=31536000, immutable"


async def test_pages_are_asked_for_each_time_and_data_stays_as_it_was(api: Api) -> None:
    async with httpx.AsyncClient(base_url=api.url, headers={"accept-encoding": "gzip"}, timeout=60.0) as caller:
        for path in ("/", "/jobs/ftjob-1", "/assets/of-another-build.js"):
            reply = await caller.get(path, headers=BROWSER)
            assert "immutable" not in reply.headers.get("cache-control", ""), path
            if reply.status_code == 200:
                assert reply.headers["cache-control"] == "no-cache", path
        document = await caller.get("/openapi.json")
        assert "content-encoding" not in document.headers
        assert document.headers["cache-control"] == "no-store"


async def test_the_first_load_is_small(api: Api) -> None:
    """The bar of the first load, scripts and styles together."""
    async with httpx.AsyncClient(base_url=api.url, headers={"accept-encoding": "gzip"}, timeout=60.0) as browser:
        page = (await browser.get("/", headers=BROWSER)).text
        sent = 0
        for path in re.findall(r'(?:src|href)="(/assets/[^"]+\.(?:js|css))"', page):
            reply = await browser.send(browser.build_request("GET", path), stream=True)
            sent += len(b"".join([chunk async for chunk in reply.aiter_raw()]))
    assert 50_000 < sent <= 200_000
