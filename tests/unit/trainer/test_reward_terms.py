"""What a run may go on with otherwise, and still keep what had finished."""

from collections.abc import Callable

import pytest

from rft.core.devices import Devices
from rft.core.egress_settings import EgressSettings
from rft.core.graders import EndpointGrader, MultiGrader
from rft.core.hyperparameters import LoraSpec, ResolvedHyperparameters
from rft.core.messages import ToolSchema
from rft.core.spec import HoldRule, RetryBudget, RolloutWorkersSpec, RunSpec, ToolServer, VllmSpec
from rft.trainer.reward_terms import reward_terms

Change = Callable[[RunSpec], RunSpec]


def with_(**changes: object) -> Change:
    return lambda spec: spec.model_copy(update=changes)


def a_tool(**changes: object) -> ToolServer:
    return ToolServer(
        name="search", server_url="https://a.example/tool",
        schema_of_job=ToolSchema(name="search", parameters={"type": "object"}),
    ).model_copy(update=changes)  # fmt: skip


def a_grader(**changes: object) -> MultiGrader:
    part = EndpointGrader(name="letters", url="https://a.example/grade", header_names=("X-Key",))
    return MultiGrader(name="all", graders={"letters": part.model_copy(update=changes)}, calculate_output="letters")


@pytest.fixture
def spec() -> RunSpec:
    return RunSpec(
        job_id="ftjob-1", seed=7, base_model="/models/tiny", model_name="tiny",
        hyperparameters=ResolvedHyperparameters(
            n_epochs=1, batch_size=2, learning_rate_multiplier=1.0, compute_multiplier=1.0, eval_interval=2,
            eval_samples=1, group_size=4, steps=3,
        ),
        tools=(a_tool(),), grader=a_grader(), lora=LoraSpec(rank=4),
    )  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        with_(max_importance_gap=3.0),
        with_(torch_threads=9, micro_batch_tokens=512, base_dtype="bfloat16"),
        with_(devices=Devices(train=(2,), vllm=(3,))),  # As a launch has them in another of its host's slots.
        with_(hold=HoldRule(max_s=5.0), retry=RetryBudget(max_retries=1), egress=EgressSettings(max_calls_in_flight=7)),
        with_(tool_gateway_url="http://tools", grader_gateway_url="http://graders"),
        with_(rollout_workers=RolloutWorkersSpec(platform_url="http://platform"), keeps_tokens=True),
        with_(vllm=VllmSpec(servers=("http://other:8000",), requests_at_once=3)),
        with_(tools=(a_tool(header_names=("Authorization",)),)),
        with_(grader=a_grader(header_names=())),
    ],
)
def test_how_calls_are_made_changes_no_reward(spec: RunSpec, change: Change) -> None:
    assert change(spec) != spec
    assert reward_terms(change(spec)) == reward_terms(spec)


@pytest.mark.parametrize(
    "change",
    [
        with_(tools=(a_tool(server_url="https://b.example/tool"),)),
        with_(tools=(a_tool(max_output_chars=10),)),
        with_(grader=a_grader(url="https://b.example/grade")),
        with_(grader=a_grader(invalid_grade=-1.0)),
        with_(engine="vllm"),
        with_(vllm=VllmSpec(max_context_tokens=512)),
        with_(base_model="/models/other"),
        with_(temperature=0.5),
        with_(reasoning_effort="low"),
        with_(seed=8),
    ],
)
def test_what_a_reward_hangs_on_changes_it(spec: RunSpec, change: Change) -> None:
    assert reward_terms(change(spec)) != reward_terms(spec)
