"""Real company reports through the whole product: platform, worker, trainer, HTTP tools, HTTP grader.

The policies are scripted by the shipped oracle sampler, one base model each: what a policy does is known beforehand,
so what the stack makes of it can be checked to the last digit.
"""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from rft.testing.samplers_oracle import PLANS, OracleCall, OraclePlan, OraclePlanLine
from tests.e2e.finqa.finqa_stack import Stack, read_rows
from tests.shared.running_platform import RunningPlatform

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def plan(policy: str, row: dict[str, Any]) -> OraclePlan:
    """What each policy does on a row."""
    expected = row["exe_ans"]
    cat = OracleCall(name="cat", arguments={"path": row["path"]})
    if policy == "never_stops":
        search = OracleCall(name="search", arguments={"query": row["path"]})
        return OraclePlan(calls=(search,) * 30, answer="Answer: 0")
    answers = {
        "oracle": expected,
        "off_by_5_percent": expected * 1.05 if isinstance(expected, float) else "maybe",
        "zero": 0,
        "three_numbers": f"{expected}, 2 or 3",
    }
    return OraclePlan(calls=(cat,), answer=f"Answer: {answers[policy]}")


WRONG = ("off_by_5_percent", "zero", "three_numbers", "never_stops")
MODELS = ("oracle", "wrong")
FEW = 40


def wrong_policies(rows: list[dict[str, Any]]) -> list[str]:
    """What the model that is always wrong does on each row: its ways take turns, but where 0 is right it says 0."""
    return ["zero" if row["exe_ans"] == 0.0 else WRONG[i % len(WRONG)] for i, row in enumerate(rows)]


def few_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some rows, and all whose answer is 0 or a word."""
    return [row for i, row in enumerate(rows) if i < FEW or row["exe_ans"] == 0.0 or isinstance(row["exe_ans"], str)]


def make_model(directory: Path, plans: list[tuple[dict[str, Any], str]]) -> None:
    """A model that is never asked: the oracle answers in its place, with its tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from rft.starter.tokenizer import build_tokenizer

    tokenizer = build_tokenizer()
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=16_384,
        )
    )
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    lines = (OraclePlanLine(row=row, plan=plan(policy, row)).model_dump_json() for row, policy in plans)
    (directory / PLANS).write_text("\n".join(lines))


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, home: Path, data: Path) -> Generator[RunningPlatform]:
    """A base model that knows every answer, and one that is wrong in four ways on a few questions."""
    models = tmp_path_factory.mktemp("models")
    train, valid = (read_rows(data / f"{name}.jsonl") for name in ("train", "valid"))
    few = few_of(valid)
    make_model(models / "oracle", [(row, "oracle") for row in (*train, *valid)])
    make_model(models / "wrong", [*((row, WRONG[0]) for row in train), *zip(few, wrong_policies(few), strict=True)])
    platform = RunningPlatform.start(
        home,
        {
            "RFT_ENGINE": "rft.testing.samplers_oracle:oracle_engine",
            "RFT_MAX_IMPORTANCE_GAP": "1000",
            "RFT_BASE_MODELS": json.dumps({name: str(models / name) for name in MODELS}),
            "RFT_TORCH_THREADS": "1",
        },
    )
    try:
        yield platform
    finally:
        platform.end()


@pytest.fixture(scope="module")
def wrong(
    platform: RunningPlatform, server_url: str, data: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[dict[str, Any]]]:
    """Rollouts of the model that is wrong, before training, by what it did; each with its row under `row`."""
    folder = tmp_path_factory.mktemp("few")
    few = few_of(read_rows(data / "valid.jsonl"))
    (folder / "train.jsonl").write_bytes((data / "train.jsonl").read_bytes())
    (folder / "valid.jsonl").write_text("".join(json.dumps(row) + "\n" for row in few))
    stack = Stack.upload(platform.client(), server_url, folder)
    job = stack.evaluate("wrong")
    page: Any = stack.client.get(f"/fine_tuning/jobs/{job.id}/rollouts?limit=1000", cast_to=object)
    baseline = [one for one in page["data"] if (one["split"], one["step"]) == ("valid", 0)]
    assert sorted(one["row_index"] for one in baseline) == list(range(len(few)))
    found: dict[str, list[dict[str, Any]]] = {policy: [] for policy in WRONG}
    for one in baseline:
        found[wrong_policies(few)[one["row_index"]]].append({**one, "row": few[one["row_index"]]})
    return found


def test_the_oracle_scores_one_on_every_question(platform: RunningPlatform, server_url: str, data: Path) -> None:
    stack = Stack.upload(platform.client(), server_url, data)
    valid = stack.steps(stack.evaluate("oracle").id)[0]["valid"]
    assert (valid["graded"], valid["excluded"]) == (len(stack.valid), 0)
    assert valid["reward_mean"] == 1.0
    assert valid["tool_calls_mean"] == 1.0


def test_an_answer_five_percent_off_scores_nothing(wrong: dict[str, list[dict[str, Any]]]) -> None:
    assert {one["reward"] for one in wrong["off_by_5_percent"]} == {0.0}


def test_answering_zero_scores_only_where_zero_is_right(wrong: dict[str, list[dict[str, Any]]]) -> None:
    assert wrong["zero"]
    assert all(one["reward"] == float(one["row"]["exe_ans"] == 0.0) for one in wrong["zero"])


def test_several_numbers_are_no_answer(wrong: dict[str, list[dict[str, Any]]]) -> None:
    assert {one["reward"] for one in wrong["three_numbers"]} == {0.0}


def test_a_policy_that_never_stops_is_cut_at_ten_calls(wrong: dict[str, list[dict[str, Any]]]) -> None:
    assert {(one["stop_reason"], one["reward"]) for one in wrong["never_stops"]} == {("max_tool_calls", 0.0)}
    assert {one["tool_calls"] for one in wrong["never_stops"]} == {10}
