"""Every page of the dashboard by its address, with something on each."""

import json

import httpx

from rft.core.events import RolloutDone
from rft.core.rollout import Split
from tests.e2e.web.run_records import events
from tests.e2e.web.seeded_evals import SeededEval
from tests.e2e.web.seeded_platform import Platform


async def every_address(platform: Platform) -> list[str]:
    """The list of jobs first; the job is the platform's first."""
    job = await platform.new_job(suffix="watched")
    await job.start()
    history = events(job.shape, until_step=4, is_ended=False)
    await job.write(history)
    done = next(event for event in history if isinstance(event, RolloutDone))
    last = next(
        event
        for event in history
        if isinstance(event, RolloutDone) and event.key.split is Split.VALID and event.key.step == 4
    )
    made = await SeededEval.make(platform.database)
    runs = [await made.run(name, skill=skill) for name, skill in (("before", 0.2), ("after", 0.8))]
    async with httpx.AsyncClient(
        base_url=platform.url, headers={"authorization": f"Bearer {platform.key}"}, timeout=60.0
    ) as client:
        row = {"messages": [{"role": "user", "content": "How much?"}], "answer": "64"}
        files = {"file": ("rows.jsonl", json.dumps(row).encode())}
        sent = await client.post("/v1/files", data={"purpose": "fine-tune"}, files=files)
        file_id = sent.raise_for_status().json()["id"]
    of_job = (
        "", "/rollouts", f"/rollouts/{done.trace_id}", "/groups/train/1/4", "/variance?split=train&step=1", "/change",
        f"/pair?before={done.trace_id}&after={last.trace_id}",
    )  # fmt: skip
    return [
        "/", "/new", f"/compare?job={job.id}", *(f"/jobs/{job.id}{path}" for path in of_job), "/models", "/models/chat",
        "/datasets", f"/datasets/{file_id}", "/endpoints", "/settings", "/evals", "/evals/new", f"/evals/{made.id}",
        f"/evals/{made.id}/runs/{runs[0]}", f"/evals/{made.id}/compare?a={runs[1]}&b={runs[0]}",
    ]  # fmt: skip
