"""A killed run taken up again: hosts free what the dead process left, and no old id is ever heard of again."""

import signal
from collections import Counter
from pathlib import Path

import pytest

from rft.core.spec import ToolServer
from rft.run_directory import layout
from tests.e2e.trainer.grade_gate import only_grades, wait_for_ends
from tests.e2e.trainer.harness import Customer, Received, Trainer, write_run

FINISHED = 3
pytestmark = pytest.mark.timeout(900)


@pytest.mark.slow
def test_a_successor_ends_what_a_killed_trainer_left_open_and_begins_under_new_ids(
    customer: Customer, base_model: Path, tmp_path: Path
) -> None:
    tool = ToolServer(name="search", server_url=f"{customer.url}/tool", callback_url=f"{customer.url}/host")
    run_dir = write_run(tmp_path / "run", base_model, customer.url, steps=1, valid_rows=0, tools=(tool,))
    with only_grades(customer, FINISHED):
        first = Trainer.start(run_dir)
        finished = {done.trace_id for done in wait_for_ends(first, FINISHED)}
        first.signal(signal.SIGKILL)
        first.wait()
    customer.hear_the_last_of(first)
    made_by_first = len(customer.received)
    left = (run_dir / layout.OPEN_ROLLOUTS).read_text()
    assert Trainer.start(run_dir).wait() == 0
    hosted = [(one.body["trace_id"], one.body["type"]) for one in customer.received if one.path == "/host"]
    open_now: Counter[str] = Counter()
    for trace_id, kind in hosted[: sum(one.path == "/host" for one in customer.received[:made_by_first])]:
        open_now[trace_id] += 1 if kind == "rollout.started" else -1
    abandoned = {trace_id for trace_id, balance in open_now.items() if balance > 0}
    assert all(trace_id in left for trace_id in abandoned)
    began = {trace_id for trace_id, kind in hosted if kind == "rollout.started"}
    last_word = dict(hosted)
    assert {last_word[trace_id] for trace_id in began} == {"rollout.ended"}
    outcomes = [(one.body["outcome"], one.trace_id in finished) for one in customer.received if is_end(one)]
    assert {outcome for outcome, is_finished in outcomes if is_finished} == {"graded"}, "also where it is told late"
    assert {one.trace_id for one in customer.received[:made_by_first] if is_end(one)} <= finished
    second = customer.received[made_by_first:]
    for trace_id in abandoned:
        told = [one.body["type"] for one in second if one.path == "/host" and one.body["trace_id"] == trace_id]
        assert told == ["rollout.ended"]
    known = {one.body["trace_id"] for one in customer.received[:made_by_first]}
    # An end that was told just before the kill may be told once more, under the same key.
    assert {one.body.get("type") for one in second if one.trace_id in known} == {"rollout.ended"}
    again = [one.headers["idempotency-key"] for one in second if one.trace_id not in known]
    assert again
    assert {one.headers["idempotency-key"] for one in customer.received[:made_by_first]}.isdisjoint(again)
    assert (run_dir / layout.OPEN_ROLLOUTS).read_text() == "", "nothing is open any more"


def is_end(one: Received) -> bool:
    return one.body.get("type") == "rollout.ended"
