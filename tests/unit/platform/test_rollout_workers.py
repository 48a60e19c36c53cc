"""Rollout workers need servers that they can reach: what is missing is said before any job runs."""

from pathlib import Path

import pytest

from rft.core.spec import RolloutWorkersSpec
from rft.platform.api.errors import BadRequest
from rft.platform.orders.rollout_workers import refuse_unusable_workers, rollout_workers_problem, to_rollout_workers
from rft.platform.settings import Settings

WHOLE = {
    "rollout_workers": "celery",
    "engine": "vllm",
    "vllm_servers": ["http://10.0.0.7:8000"],
    "tool_gateway_url": "http://10.0.0.8:8788",
    "grader_gateway_url": "http://10.0.0.8:8789",
}


def settings(home: Path, **changed: object) -> Settings:
    return Settings.model_validate({"home": home, **WHOLE, **changed})


def test_a_whole_installation_and_one_without_workers_lack_nothing(tmp_path: Path) -> None:
    assert rollout_workers_problem(settings(tmp_path)) is None
    assert rollout_workers_problem(Settings.model_validate({"home": tmp_path})) is None
    refuse_unusable_workers(settings(tmp_path), "rollout")
    assert to_rollout_workers(Settings.model_validate({"home": tmp_path})) is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"engine": "transformers"}, "the engine `vllm` (RFT_ENGINE is `transformers`, which samples inside"),
        ({"vllm_servers": []}, "RFT_VLLM_SERVERS"),
        ({"tool_gateway_url": None}, "both gateway services"),
        ({"grader_gateway_url": None}, "workers are given no secrets"),
    ],
)
def test_what_is_missing_is_said_in_words(tmp_path: Path, changed: dict[str, object], words: str) -> None:
    assert words in str(rollout_workers_problem(settings(tmp_path, **changed)))
    with pytest.raises(BadRequest, match="No job can run here: RFT_ROLLOUT_WORKERS is `celery`") as refused:
        refuse_unusable_workers(settings(tmp_path, **changed), "rollout")
    assert refused.value.code == "rollout_workers_not_usable"


def test_workers_keep_a_rollouts_version(tmp_path: Path) -> None:
    refuse_unusable_workers(Settings.model_validate({"home": tmp_path}), "turn")
    with pytest.raises(BadRequest, match="`policy_pin` cannot be `turn`") as refused:
        refuse_unusable_workers(settings(tmp_path), "turn")
    assert refused.value.param == "method.reinforcement.hyperparameters.policy_pin"


@pytest.mark.parametrize(
    ("changed", "url"),
    [
        ({"platform_url": "http://10.0.0.2:80/"}, "http://10.0.0.2:80"),
        ({"host": "0.0.0.0", "port": 9}, "http://127.0.0.1:9"),
        ({"host": "::1", "port": 9}, "http://[::1]:9"),
    ],
)
def test_workers_are_told_where_the_platform_is(tmp_path: Path, changed: dict[str, object], url: str) -> None:
    assert to_rollout_workers(settings(tmp_path, **changed)) == RolloutWorkersSpec(platform_url=url)
