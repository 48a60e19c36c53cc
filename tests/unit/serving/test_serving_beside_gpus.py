"""A process that answers chat from its own memory leaves the host's GPUs alone."""

import io
import os
from pathlib import Path

import pytest

from rft.core.spec import Engine
from rft.serving import __main__ as program
from rft.serving_wire.records import ServingSpec


@pytest.mark.parametrize(("engine", "visible"), [(Engine.TRANSFORMERS, ""), (Engine.VLLM, "3")])
def test_only_one_that_starts_a_vllm_server_sees_them(
    engine: Engine, visible: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[str | None]()

    async def serve(spec: ServingSpec) -> None:
        seen.append(os.environ.get("CUDA_VISIBLE_DEVICES"))

    spec = ServingSpec(
        base_model="base", engine=engine, folder=str(tmp_path), idle_s=1, requests_at_once=1, queue_s=1,
        cached_tokens=0, token="t",
    )  # fmt: skip
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setenv("RFT_HIDDEN_GPUS", "")  # And both restored.
    monkeypatch.setattr(os, "nice", seen.count)  # Of the tests' own process.
    monkeypatch.setattr("sys.stdin", io.StringIO(spec.model_dump_json()))
    monkeypatch.setattr(program, "serve", serve)
    program.main()
    assert seen == [visible]
