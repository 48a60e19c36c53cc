"""The jobs list searched, filtered and sorted: ours, beside the contract's `after`, `limit` and `metadata`."""

from typing import Any

import httpx
import psycopg
import pytest
from openai import AsyncOpenAI
from psycopg.types.json import Jsonb

from tests.shared.running_api import Api, changed

JOBS = "/v1/fine_tuning/jobs"


@pytest.fixture
async def ids(client: AsyncOpenAI, plain_order: dict[str, Any], migrated_url: str) -> dict[str, str]:
    """Three jobs, oldest first: two that are over with figures, one that waits."""
    made = dict[str, str]()
    for suffix, team in (("finance small", "reports"), ("Finance LARGE", "mail"), ("coding", "mail")):
        order = changed(plain_order, {"metadata": {"team": team}, "suffix": suffix})
        made[suffix] = (await client.fine_tuning.jobs.create(**order)).id
    await end(migrated_url, made["finance small"], reward=0.9, gain=0.1, lasted_s=60)
    await end(migrated_url, made["Finance LARGE"], reward=0.8, gain=0.5, lasted_s=600)
    return made


async def end(url: str, job_id: str, *, reward: float, gain: float, lasted_s: int) -> None:
    """What a worker would write."""
    estimate = {"mean": reward, "low": reward - 0.1, "high": reward + 0.1, "rows": 9}
    figures = {
        "rows": "validation",
        "step": 3,
        "reward": estimate,
        "untrained": estimate | {"mean": reward - gain},
        "gain": {"difference": gain, "low": 0.0, "high": 1.0, "rows": 9, "better": 5, "worse": 1, "same": 3},
        "selected_at": reward,
    }
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(
            "update jobs set status = 'succeeded', final_figures = %s, started_at = now(),"
            " finished_at = now() + make_interval(secs => %s) where id = %s",
            (Jsonb(figures), lasted_s, job_id),
        )


async def listed(api: Api, **wanted: Any) -> list[str]:
    """The suffixes, page by page."""
    found, after = list[str](), None
    async with httpx.AsyncClient(
        base_url=api.url, headers={"authorization": f"Bearer {api.key}"}, timeout=60.0
    ) as http:
        while True:
            page = (await http.get(JOBS, params={**wanted, "limit": 2} | ({"after": after} if after else {}))).json()
            found += [job["user_provided_suffix"] for job in page["data"]]
            if not page["has_more"]:
                return found
            after = page["last_id"]


async def test_words_are_found_in_names_ids_and_metadata_whatever_their_case(api: Api, ids: dict[str, str]) -> None:
    assert await listed(api, search="finance") == ["Finance LARGE", "finance small"]
    assert await listed(api, search=" MAIL  large") == ["Finance LARGE"]
    assert await listed(api, search=ids["coding"][-8:]) == ["coding"]
    assert await listed(api, search="tiny") == ["coding", "Finance LARGE", "finance small"]
    assert await listed(api, search="100%_") == []


async def test_statuses_and_metadata_narrow_the_list_together(api: Api, ids: dict[str, str]) -> None:
    assert len(ids) == 3
    assert await listed(api, status="succeeded") == ["Finance LARGE", "finance small"]
    assert await listed(api, status=["validating_files", "succeeded"]) == ["coding", "Finance LARGE", "finance small"]
    assert await listed(api, **{"status": "succeeded", "metadata[team]": "mail"}) == ["Finance LARGE"]


async def test_a_figure_sorts_and_jobs_without_it_come_last(api: Api, ids: dict[str, str]) -> None:
    assert len(ids) == 3
    assert await listed(api, sort="reward") == ["finance small", "Finance LARGE", "coding"]
    assert await listed(api, sort="reward", order="asc") == ["Finance LARGE", "finance small", "coding"]
    assert await listed(api, sort="gain") == ["Finance LARGE", "finance small", "coding"]
    assert await listed(api, sort="duration", order="asc") == ["finance small", "Finance LARGE", "coding"]
    assert await listed(api, order="asc") == ["finance small", "Finance LARGE", "coding"]


async def test_a_job_that_runs_has_no_duration_yet_and_hides_no_other(
    api: Api, ids: dict[str, str], migrated_url: str
) -> None:
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        started = "update jobs set status = 'running', started_at = now() - interval '300 s' where id = %s"
        await connection.execute(started, (ids["coding"],))
    assert await listed(api, sort="duration", order="asc") == ["finance small", "Finance LARGE", "coding"]
    assert await listed(api, sort="duration") == ["Finance LARGE", "finance small", "coding"]


async def test_a_page_goes_on_after_a_job_that_is_no_longer_among_them(api: Api, ids: dict[str, str]) -> None:
    async with httpx.AsyncClient(
        base_url=api.url, headers={"authorization": f"Bearer {api.key}"}, timeout=60.0
    ) as http:
        asked = {"status": "succeeded", "after": ids["coding"]}
        page = (await http.get(JOBS, params=asked)).raise_for_status().json()
        assert [job["user_provided_suffix"] for job in page["data"]] == ["Finance LARGE", "finance small"]
        refused = await http.get(JOBS, params={"status": "over"})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "status"


async def validated(url: str, job_id: str, rewards: dict[int, float], *, best_step: int | None) -> None:
    """Validations of these steps, as a worker would write them."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for step, reward in rewards.items():
            record = Jsonb({"train": None, "valid": {"reward_mean": reward}, "timing": {}})
            query = "insert into steps (job_id, step, record) values (%s, %s, %s)"
            await connection.execute(query, (job_id, step, record))
        await connection.execute("update jobs set best_step = %s where id = %s", (best_step, job_id))


async def test_before_there_are_final_figures_the_latest_validation_counts_which_is_the_one_shown(
    api: Api, ids: dict[str, str], migrated_url: str
) -> None:
    await validated(migrated_url, ids["coding"], {0: 0.0, 2: 0.95, 4: 0.85}, best_step=2)
    assert await listed(api, sort="reward") == ["finance small", "coding", "Finance LARGE"]
    assert await listed(api, sort="gain") == ["coding", "Finance LARGE", "finance small"]


async def test_the_baseline_alone_is_no_reward(api: Api, ids: dict[str, str], migrated_url: str) -> None:
    await validated(migrated_url, ids["coding"], {0: 0.95}, best_step=0)
    assert await listed(api, sort="reward") == ["finance small", "Finance LARGE", "coding"]
    assert await listed(api, sort="gain") == ["Finance LARGE", "finance small", "coding"]


async def test_a_final_gain_without_an_interval_is_the_difference_that_is_shown(
    api: Api, ids: dict[str, str], migrated_url: str
) -> None:
    """Not that of the validations while it trained."""
    async with await psycopg.AsyncConnection.connect(migrated_url, autocommit=True) as connection:
        await connection.execute(
            """update jobs set final_figures = final_figures || '{"gain": null}' where id = %s""",
            (ids["finance small"],),
        )
    await validated(migrated_url, ids["finance small"], {0: 0.0, 2: 0.9}, best_step=2)
    assert await listed(api, sort="gain") == ["Finance LARGE", "finance small", "coding"]
