"""The dashboard's built assets beside the API."""

from pathlib import Path

import pytest
from openai import AsyncOpenAI, NotFoundError

from tests.shared.running_api import Api, ReceivedMessages, Served

BROWSER = {"accept": "text/html,application/xhtml+xml"}


async def test_a_browser_finds_the_dashboard_and_a_program_the_api(api: Api, tmp_path: Path) -> None:
    assets = tmp_path / "web"
    (assets / "assets").mkdir(parents=True)
    (assets / "index.html").write_text("<title>Agent RFT</title>")
    (assets / "assets" / "app.js").write_text("let a = 1")
    with Served(api.settings, ReceivedMessages(), web_assets=assets) as port:
        async with AsyncOpenAI(base_url=f"http://127.0.0.1:{port}", api_key=api.key, max_retries=0) as client:
            for path in ("/", "/jobs/ftjob-1"):
                page = await client.get(path, cast_to=str, options={"headers": BROWSER})
                assert page == "<title>Agent RFT</title>"
            assert await client.get("/assets/app.js", cast_to=str) == "let a = 1"
            assert (await client.with_options(base_url=f"http://127.0.0.1:{port}/v1").models.list()).data
            for path in ("/v1/nothing", "/assets/gone.js"):
                with pytest.raises(NotFoundError) as raised:
                    await client.get(path, cast_to=object)
                assert raised.value.code == "unknown_url"
            with pytest.raises(NotFoundError) as raised:
                await client.post("/v1/nothing", cast_to=object)
            assert raised.value.code == "unknown_url"
