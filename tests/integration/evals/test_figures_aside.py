"""Figures of whole runs are made beside the event loop, which answers other requests meanwhile."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rft.platform.evals import output_item_repository, reconciling, run_analysis
from tests.integration.evals.stage import EXACT, Stage, inline, row

MADE = [
    (run_analysis, "compare"),
    (run_analysis, "compared_rows"),
    (run_analysis, "variance_of"),
    (reconciling, "run_figures"),
    (output_item_repository, "Measured"),
]


def is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def test_no_figure_is_made_on_the_event_loop(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    on_loop = dict[str, bool]()

    def watched(name: str, make: Callable[..., Any]) -> Callable[..., Any]:
        def made(*given: Any, **named: Any) -> Any:
            on_loop[name] = is_on_a_loop()
            return make(*given, **named)

        return made

    for module, name in MADE:
        monkeypatch.setattr(module, name, watched(name, getattr(module, name)))
    eval_id = await stage.make(EXACT)
    one, other = [await stage.run(eval_id, inline(row("7", "7"), row("8", said))) for said in ("7", "8")]
    path = f"/evals/{eval_id}/runs/{one.id}"
    compared: Any = await stage.client.get(f"{path}/compare?with={other.id}", cast_to=object)
    assert compared["passed"]["worse"] == 1
    rows: Any = await stage.client.get(f"{path}/compare/rows?with={other.id}&change=worse", cast_to=object)
    assert [each["datasource_item"]["answer"] for each in rows["data"]] == ["8"]
    spread: Any = await stage.client.get(f"{path}/variance?limit=1", cast_to=object)
    assert len(spread["data"]) == 1
    assert on_loop == dict.fromkeys([name for _, name in MADE], False)
