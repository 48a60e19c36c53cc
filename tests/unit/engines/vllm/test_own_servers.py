"""vLLM servers of a run's own: one, or one on each GPU that was named for it."""

import os
from pathlib import Path

import pytest

from rft.core.devices import Devices
from rft.core.spec import RunSecrets, VllmSpec
from rft.engines.vllm.open_engine import open_vllm_engine, own_servers
from rft.engines.vllm.options import EngineOptions
from rft.trainer.ranks.world import World, use_own_gpu
from rft.vllm_server.process import ServerProcess
from tests.unit.engines.vllm.vllm_runs import vllm_run


def seen_gpus(processes: list[tuple[str, ServerProcess]]) -> list[str | None]:
    return [process._environment.get("CUDA_VISIBLE_DEVICES") for _, process in processes]  # pyright: ignore[reportPrivateUsage]


def test_one_server_on_each_gpu_that_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    python, options = tmp_path / "python", EngineOptions(base_model="base", max_context_tokens=64)
    python.touch()
    two = own_servers(
        vllm_run("base", VllmSpec(python=str(python)), Devices(train=(0, 1), vllm=(2, 3))),
        options,
        tmp_path,
        ports=[7001, 7002],
    )
    assert [url for url, _ in two] == ["http://127.0.0.1:7001", "http://127.0.0.1:7002"]
    assert seen_gpus(two) == ["2", "3"]
    orders = [process._environment.get("CUDA_DEVICE_ORDER") for _, process in two]  # pyright: ignore[reportPrivateUsage]
    assert orders == ["PCI_BUS_ID"] * 2, "as `nvidia-smi` numbers them"
    assert [process._log.name for _, process in two] == ["vllm.log", "vllm-1.log"]  # pyright: ignore[reportPrivateUsage]
    one = own_servers(vllm_run("base", VllmSpec(python=str(python))), options, tmp_path, ports=[7001])
    assert seen_gpus(one) == ["0"]
    assert [url for url, _ in one] == ["http://127.0.0.1:7001"]


@pytest.mark.parametrize("before", [None, "4,7", ""])
def test_ranks_on_the_cpu_leave_the_gpu_to_the_server(
    before: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {} if before is None else {"CUDA_VISIBLE_DEVICES": before}
    monkeypatch.setattr(os, "environ", environment)
    python, options = tmp_path / "python", EngineOptions(base_model="base", max_context_tokens=64)
    python.touch()
    devices = Devices(cpu_ranks=2)
    for _ in range(2):
        use_own_gpu(environment, World(size=2, local_size=2), devices)
        assert environment["CUDA_VISIBLE_DEVICES"] == ""
    servers = own_servers(vllm_run("base", VllmSpec(python=str(python)), devices), options, tmp_path, ports=[7001])
    assert seen_gpus(servers) == [before]


def test_a_server_can_sleep_where_it_takes_turns(tmp_path: Path) -> None:
    python, options = tmp_path / "python", EngineOptions(base_model="base", max_context_tokens=64)
    python.touch()
    spec = vllm_run("base", VllmSpec(python=str(python)), Devices(train=(0,), vllm=(0,)))
    for takes_turns in (False, True):
        changed = spec.model_copy(update={"vllm": spec.vllm.model_copy(update={"takes_turns": takes_turns})})
        ((_, process),) = own_servers(changed, options, tmp_path, ports=[7001])
        assert ("--enable-sleep-mode" in process._command) is takes_turns  # pyright: ignore[reportPrivateUsage]
        assert process._environment.get("VLLM_SERVER_DEV_MODE") == ("1" if takes_turns else None)  # pyright: ignore[reportPrivateUsage]


def test_a_server_of_ours_may_take_longer_to_start_than_one_that_should_be_there(
    model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def patience_s(**vllm: object) -> float:
        spec = vllm_run(str(model_dir), VllmSpec.model_validate(vllm))
        return open_vllm_engine(spec, RunSecrets(), tmp_path)._options.start_patience_s  # pyright: ignore[reportPrivateUsage]

    started = list[ServerProcess]()

    def ensure_running(process: ServerProcess) -> None:
        started.append(process)

    monkeypatch.setattr(ServerProcess, "ensure_running", ensure_running)
    (tmp_path / "python").touch()
    assert patience_s(python=str(tmp_path / "python")) == 3 * patience_s(servers=("http://10.0.0.7:8000",))
    assert len(started) == 1
