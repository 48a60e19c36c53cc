"""The trainer as its own process, its rollouts graded by a judge on a real socket."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from rft.core.events import RolloutDone, StepDone
from rft.core.grade import Grade
from rft.core.graders import (
    JudgeMessage,
    JudgeServer,
    LeafGrader,
    MultiGrader,
    PythonGrader,
    RulerGrader,
    ScoreModelGrader,
    StringCheckGrader,
)
from rft.core.rollout import Split
from rft.core.spec import RetryBudget, RunSecrets
from rft.testing.judge import ScriptedJudge
from rft.testing.loopback import LoopbackEndpoint
from tests.e2e.trainer.harness import Customer, Trainer, events, write_run

KEY = "sk-judge-secret"
LETTERS = "def grade(sample, item):\n    return len(sample['output_text'])\n"
GROUP = 4
RETRY = RetryBudget(max_retries=1, first_wait_s=0.01)


def rank_by_place(body: Any) -> str:
    """Each attempt gets a share of its number."""
    ids = re.findall(r'<trajectory id="(\d+)">', body["messages"][-1]["content"])
    scores = [{"trajectory_id": known, "explanation": "place", "score": int(known) / len(ids)} for known in ids]
    return json.dumps({"scores": scores})


def files_of(run_dir: Path) -> bytes:
    """Everything written into the run directory itself."""
    return b"".join(path.read_bytes() for path in run_dir.iterdir() if path.is_file())


async def train(run_dir: Path) -> tuple[list[RolloutDone], list[StepDone]]:
    trainer = Trainer.start(run_dir, RunSecrets(judge_api_key=KEY))
    code = await asyncio.to_thread(trainer.wait)
    told = [line.event for line in events(run_dir)]
    assert code == 0, told[-1]
    assert KEY.encode() not in files_of(run_dir), "the key is in no file"
    return (
        [event for event in told if isinstance(event, RolloutDone)],
        [event for event in told if isinstance(event, StepDone)],
    )


async def test_a_ruler_ranks_every_group_in_one_call(tmp_path: Path, base_model: Path, customer: Customer) -> None:
    judge = ScriptedJudge(rank_by_place, api_key=KEY)
    async with LoopbackEndpoint(judge) as courtroom:
        run_dir = write_run(
            tmp_path / "run", base_model, customer.url, steps=1, group_size=GROUP, valid_rows=1, retry=RETRY,
            grader=RulerGrader(name="ruler", model="judge-1"),
            judge=JudgeServer(base_url=f"{courtroom.base_url}/v1"),
        )  # fmt: skip
        rollouts, steps = await train(run_dir)

    groups: dict[int, list[float]] = {}
    for rollout in rollouts:
        assert isinstance(rollout.outcome, Grade)
        if rollout.key.split is Split.TRAIN:
            groups.setdefault(rollout.key.row_index, []).append(rollout.outcome.reward)
    assert [sorted(rewards) for rewards in groups.values()] == [[0.25, 0.5, 0.75, 1.0]] * 2
    (trained,) = [step.train for step in steps if step.train is not None]
    assert (trained.graded, trained.zero_variance_groups) == (2 * GROUP, 0)
    assert trained.judge_usage["judge-1"].prompt_tokens == 2 * 100, "one call for each group"
    assert not any(received.path == "/grade" for received in customer.received)


async def test_a_multi_grader_adds_up_code_comparison_and_judge(
    tmp_path: Path, base_model: Path, customer: Customer
) -> None:
    judge = ScriptedJudge('{"steps": [], "result": 0.5}', api_key=KEY)
    parts: dict[str, LeafGrader] = {
        "judged": ScoreModelGrader(
            name="judged",
            model="judge-1",
            input=(JudgeMessage(role="user", content="{{ sample.output_text }} to {{ item.messages[0].content }}"),),
        ),
        "letters": PythonGrader(name="letters", source=LETTERS),
        "asked": StringCheckGrader(
            name="asked", input="{{ item.messages[0].content }}", reference="Question", operation="like"
        ),
    }
    async with LoopbackEndpoint(judge) as courtroom:
        run_dir = write_run(
            tmp_path / "run", base_model, customer.url, steps=1, group_size=2, valid_rows=1, retry=RETRY,
            grader=MultiGrader(name="all", graders=parts, calculate_output="judged + letters / 100 + asked"),
            judge=JudgeServer(base_url=f"{courtroom.base_url}/v1"),
        )  # fmt: skip
        rollouts, steps = await train(run_dir)

    for rollout in rollouts:
        assert isinstance(rollout.outcome, Grade)
        scores = rollout.outcome.scores
        assert (scores["judged"], scores["asked"]) == (0.5, 1.0)
        assert abs(rollout.outcome.reward - (1.5 + scores["letters"] / 100)) < 1e-9
    (trained,) = [step.train for step in steps if step.train is not None]
    assert trained.judge_usage["judge-1"].completion_tokens == 20 * trained.graded
    assert set(trained.grader_scores_mean) == {"judged", "letters", "asked"}
