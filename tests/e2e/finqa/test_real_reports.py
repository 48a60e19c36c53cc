"""Real company reports through the whole product: platform, worker, trainer, HTTP tools, HTTP grader.

The policies are scripted by the shipped oracle sampler, one base model each: what a policy does is known beforehand,
so what the stack makes of it can be checked to the last digit.
"""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rft.testing.samplers_oracle import PLANS, OracleCall, OraclePlan, OraclePlanLine
from rft.trainer.starter.tokenizer import build_tokenizer
from tests.e2e.finqa.finqa_stack import Stack, read_rows
from tests.integration.embedded.running_platform import RunningPlatform

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


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


POLICIES = ("oracle", "off_by_5_percent", "zero", "three_numbers", "never_stops")


def make_model(directory: Path, policy: str, rows: list[dict[str, Any]]) -> None:
    """A model that is never asked: the oracle answers in its place, with its tokenizer."""
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
    lines = (OraclePlanLine(row=row, plan=plan(policy, row)).model_dump_json() for row in rows)
    (directory / PLANS).write_text("\n".join(lines))


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, home: Path, server_url: str, data: Path) -> Generator[Stack]:
    models = tmp_path_factory.mktemp("models")
    rows = {name: read_rows(data / f"{name}.jsonl") for name in ("train", "valid")}
    for policy in POLICIES:
        make_model(models / policy, policy, [*rows["train"], *rows["valid"]])
    platform = RunningPlatform.start(
        home,
        {
            "RFT_ENGINE": "rft.testing.samplers_oracle:oracle_engine",
            "RFT_BASE_MODELS": json.dumps({policy: str(models / policy) for policy in POLICIES}),
        },
    )
    try:
        client = platform.client()
        files = {name: client.files.create(file=data / f"{name}.jsonl", purpose="fine-tune").id for name in rows}
        yield Stack(client, server_url, rows["valid"], files)
    finally:
        platform.end()


def test_the_oracle_scores_one_on_every_question(stack: Stack) -> None:
    valid = stack.evaluate("oracle")
    assert (valid["graded"], valid["excluded"]) == (len(stack.valid), 0)
    assert valid["reward_mean"] == 1.0
    assert valid["tool_calls_mean"] == 1.0


def test_an_answer_five_percent_off_scores_nothing(stack: Stack) -> None:
    valid = stack.evaluate("off_by_5_percent")
    # Five percent more than nothing is nothing: one question's answer is 0.
    assert valid["reward_mean"] == share_of_zero_answers(stack)


def test_answering_zero_scores_only_where_zero_is_right(stack: Stack) -> None:
    assert stack.evaluate("zero")["reward_mean"] == share_of_zero_answers(stack)


def test_several_numbers_are_no_answer(stack: Stack) -> None:
    assert stack.evaluate("three_numbers")["reward_mean"] == 0.0


def test_a_policy_that_never_stops_is_cut_at_ten_calls(stack: Stack) -> None:
    valid = stack.evaluate("never_stops")
    assert valid["stop_reasons"] == {"max_tool_calls": len(stack.valid)}
    assert valid["reward_mean"] == 0.0
    assert {tool["name"]: tool["calls"] for tool in valid["tools"]}["search"] >= 10 * len(stack.valid)


def share_of_zero_answers(stack: Stack) -> float:
    return sum(row["exe_ans"] == 0.0 for row in stack.valid) / len(stack.valid)
