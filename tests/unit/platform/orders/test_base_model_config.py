"""What a base model's configuration tells of how the default engine samples from it."""

import json
from pathlib import Path
from typing import Any

import pytest

from rft.platform.orders.base_model_config import has_one_version


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"model_type": "llama"}, False),
        ({"sliding_window": None}, False),
        ({"sliding_window": 131_072, "use_sliding_window": False}, False),
        ({"layer_types": ["full_attention"] * 2}, False),
        ({"sliding_window": 4096}, True),
        ({"layer_types": ["sliding_attention", "full_attention"]}, True),
        ({"text_config": {"sliding_window": 512}}, True),
    ],
)
def test_layers_that_do_not_attend_to_all_hold_one_version(tmp_path: Path, config: dict[str, Any], told: bool) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert has_one_version(str(tmp_path), "transformers") is told
    assert not has_one_version(str(tmp_path), "vllm")


def test_what_is_not_on_this_machine_tells_nothing() -> None:
    assert not has_one_version("org/model", "transformers")
