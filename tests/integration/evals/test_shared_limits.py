"""Runs of evals at once have limiters of their own: together they keep to what an endpoint was promised."""

from dataclasses import replace

import pytest

from rft.core.failure import Stage as FailureStage
from rft.egress.endpoint import Endpoint
from rft.platform.worker.run_eval import run_eval
from rft.testing.provider import ScriptedProvider
from tests.integration.evals.sampling import sampled
from tests.integration.evals.stage import Stage, row
from tests.shared.opened_clients import opened_clients


@pytest.mark.parametrize(("slots", "calls", "rate"), [(1, 8, 1.0), (2, 4, 0.5), (16, 1, 1 / 16)])
async def test_a_run_keeps_to_its_share_of_an_endpoints_caps(
    stage: Stage, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, slots: int, calls: int, rate: float
) -> None:
    del provider
    opened = opened_clients(monkeypatch)
    made = await stage.client.evals.runs.create(await stage.make(), data_source=sampled(row("1", None)))
    settings = stage.context.settings.model_copy(update={"eval_slots": slots})
    assert await run_eval(made.id, replace(stage.context, settings=settings)) == "completed"
    endpoint = Endpoint(
        name="x", stage=FailureStage.TOOL, url="http://127.0.0.1:9/x", max_concurrency=8, rate_limit=1.0
    )
    loads = [client.limits.limiter(endpoint).load() for client in opened]
    assert [(load.limit, load.rate_limit) for load in loads] == [(calls, rate)] * 2, "of graders and tools; of models"
