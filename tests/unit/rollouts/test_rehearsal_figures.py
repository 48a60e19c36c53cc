"""Figures of a rehearsal from its attempts."""

import pytest

from rft.core.attempt import Attempt
from rft.core.failure import Stage
from rft.core.graders import EndpointGrader
from rft.core.hyperparameters import Hyperparameters, resolve
from rft.core.spec import RunSpec, ToolServer
from rft.rollouts.rehearsal_figures import Measured, to_report
from rft.rollouts.rehearsal_report import RehearsalPlan
from rft.tool_gateway.callbacks import ENDED, STARTED

PLAN = RehearsalPlan(rows_per_step=1, group_size=2, rollouts=2, calls_per_rollout=1)


def attempt(call_id: str, latency_s: float, trace_id: str) -> Attempt:
    return Attempt(100.0, trace_id, Stage.TOOL, "search", call_id, 1, None, 200, latency_s, 0.0, 10, 20)


def test_a_callback_is_as_slow_as_its_beginnings_whose_rollouts_wait_for_them() -> None:
    tool = ToolServer(name="search", server_url="http://host/tool", callback_url="http://host/hook")
    spec = RunSpec(
        job_id="rehearsal-1",
        seed=7,
        base_model="",
        model_name="tiny",
        hyperparameters=resolve(Hyperparameters(), train_rows=1),
        tools=(tool,),
        grader=EndpointGrader(name="judge", url="http://host/grade"),
    )
    attempts = [
        one
        for trace_id in ("trace_1", "trace_2")
        for one in (attempt(STARTED, 20.0, trace_id), attempt("call_1", 0.5, trace_id), attempt(ENDED, 0.1, trace_id))
    ]
    measured = Measured((), attempts, unwritten_calls=0, wall_s=21.0, own_delays_s=())
    search, callback, _ = to_report(PLAN, spec, measured).endpoints
    assert (search.is_callback, search.calls, search.p95_ms) == (False, 2, pytest.approx(500.0))
    assert (callback.is_callback, callback.calls, callback.attempts) == (True, 4, 4)
    assert callback.p50_ms == callback.p95_ms == pytest.approx(20_000.0)
