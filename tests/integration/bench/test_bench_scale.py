"""`make bench-scale` at toy size, and that docs/scale.md says what was measured. Nothing here is a timing."""

import json
from dataclasses import fields, replace
from pathlib import Path

from tests.bench.scale_costs import Costs
from tests.bench.scale_inbox import CallCost, InboxCosts
from tests.bench.scale_simulation import CYCLE_S, Hosts, simulate
from tests.bench.scale_tables import tables

DOCS = Path(__file__).parents[3] / "docs"
FREE = Costs(**{one.name: 0.0 for one in fields(Costs)})
NOTHING = CallCost(0.0, 0.0)
FREE_INBOX = InboxCosts(NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, 0.0, 0.0)
FEW = Hosts(2, rollouts_per_host=20)


def test_without_costs_nothing_is_busy_and_rollouts_take_as_long_as_their_calls() -> None:
    came = simulate(FEW, FREE, FREE_INBOX)
    assert set(came.utilisation.values()) == {0.0}
    assert 20.0 < came.rollout_s < 30.0, "four turns of 2 s, three calls of 5 s, a grade of 1 s, and what shards wait"
    assert 40 / CYCLE_S < came.rollouts_per_s < 40 / 24.0, "each step waits for its slowest"


def test_the_process_with_the_most_work_limits_the_run_and_a_second_one_lets_it_go_on() -> None:
    slow = replace(FREE, tool_call_ms=2_000.0)
    one, two = (simulate(Hosts(2, rollouts_per_host=20, tool_gateways=count), slow, FREE_INBOX) for count in (1, 2))
    assert one.busiest == two.busiest == "tool_gateway"
    assert one.rollouts_per_s <= 1 / 6.0 * 1.1, "three calls of two seconds on one core"
    assert one.utilisation["tool_gateway"] > 0.9
    assert two.rollouts_per_s > 1.5 * one.rollouts_per_s


def test_calls_beyond_what_the_endpoint_bears_wait_in_the_limiter() -> None:
    came = simulate(Hosts(2, rollouts_per_host=20, calls_at_once=2), FREE, FREE_INBOX)
    assert came.queued_calls > 0
    assert came.rollouts_per_s <= 2 / 15.0 * 1.2, "three calls of five seconds, two at once"


def test_the_page_has_the_tables_of_its_figures() -> None:
    figures = json.loads((DOCS / "scale.json").read_text())["cases"]
    page = (DOCS / "scale.md").read_text()
    for table in tables(figures).split("\n\n"):
        assert table in page, "python -m tests.bench.scale --tables docs/scale.json prints them"
