"""Adapters as vLLM looks for them: by the names of the modules that it has, and by no others."""

import errno
import re
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file
from transformers import AutoModelForImageTextToText, PreTrainedTokenizerBase

from rft.core.errors import SamplerError
from rft.core.spec import RunSecrets, VllmSpec
from rft.engines.base_model import load_base_model
from rft.engines.vllm.adapters import AdapterFolder
from rft.engines.vllm.open_engine import open_vllm_engine
from rft.scratch.disk import is_disk_full
from rft.testing.loopback import LoopbackEndpoint
from rft.testing.vllm_server import ScriptedVllm
from rft.vllm_server.release import VERSION
from tests.shared.engine_contract import adapter
from tests.shared.tiny_models import save_tiny, tiny_config
from tests.unit.engines.vllm.vllm_runs import vllm_run

RENAMES = {
    "model.visual.": "visual.",
    "lm_head.": "language_model.lm_head.",
    "model.language_model.": "language_model.model.",
}
"""Of vLLM's `Qwen3VLForConditionalGeneration` and those made of it, `Qwen3_5ForConditionalGeneration` for one."""
MODULE = re.compile(r"language_model\.model\.layers\.\d+\.(self_attn|linear_attn|mlp)\.\w+\.lora_[AB]\.weight")


async def shown(base_model: Path, trained: Path, folder: Path) -> Path:
    """A copy of the matrices that a run's server is told to read."""
    server = ScriptedVllm(version=VERSION, root=str(base_model))
    async with LoopbackEndpoint(server) as endpoint:
        engine = open_vllm_engine(
            vllm_run(str(base_model), VllmSpec(servers=(endpoint.base_url,))), RunSecrets(), folder
        )
        try:
            await engine.publish(1, trained)
            (directory,) = server.adapters.values()
            return Path(shutil.copy(Path(directory) / "adapter_model.safetensors", folder))
        finally:
            await engine.close()


def at_vllm(name: str) -> str:
    """As its loader of adapters names a module."""
    path = name.removeprefix("base_model.model.")
    for old, new in RENAMES.items():
        if path.startswith(old):
            return new + path.removeprefix(old)
    return path


async def test_vllm_finds_the_layers_of_a_model_that_also_sees_and_is_trained_for_its_text_alone(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    base, trained = tmp_path / "base", tmp_path / "trained"
    AutoModelForImageTextToText.from_config(tiny_config("qwen3_5", tokenizer)).save_pretrained(base)
    adapter(trained, lambda: load_base_model(str(base)), seed=1)
    found = load_file(await shown(base, trained, tmp_path / "run"))
    ours = load_file(trained / "adapter_model.safetensors")
    assert len(found) == len(ours) > 0
    assert [name for name in found if not MODULE.fullmatch(at_vllm(name))] == []
    for name, weight in ours.items():
        assert found[name.replace("model.layers.", "model.language_model.layers.")].equal(weight)


@pytest.mark.parametrize("family", ["qwen3_5_text", "gemma3"])
async def test_other_adapters_are_shown_as_they_are(
    family: str, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    base = save_tiny(family, tokenizer, tmp_path / "base")
    adapter(tmp_path / "trained", lambda: load_base_model(str(base)), seed=1)
    found = await shown(base, tmp_path / "trained", tmp_path / "run")
    assert found.read_bytes() == (tmp_path / "trained" / "adapter_model.safetensors").read_bytes()


def test_a_file_that_holds_no_adapter_is_no_fault_of_the_engine(tmp_path: Path) -> None:
    trained = tmp_path / "trained"
    trained.mkdir()
    (trained / "adapter_config.json").write_text("{}")
    folder = AdapterFolder(tmp_path / "served", run="job", launch="1", text_at="model.language_model.")
    for broken in (b"", b"weights", b"\xff" * 64, (2).to_bytes(8, "little") + b"[]"):
        (trained / "adapter_model.safetensors").write_bytes(broken)
        with pytest.raises(SamplerError, match="trained cannot be read"):
            folder.add(1, trained)
    assert list((tmp_path / "served").iterdir()) == []


def test_a_disk_that_is_full_while_an_adapter_is_laid_out_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run then waits for room: nothing is wrong with the adapter."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "trained").mkdir()
    monkeypatch.setattr("os.link", full)
    monkeypatch.setattr("shutil.copyfile", full)
    folder = AdapterFolder(tmp_path / "served", run="job", launch="1")
    with pytest.raises(OSError, match="No space left") as raised:
        folder.add(1, tmp_path / "trained")
    assert is_disk_full(raised.value)
    assert list((tmp_path / "served").iterdir()) == []
