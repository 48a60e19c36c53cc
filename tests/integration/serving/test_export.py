"""A trained model leaves the platform: what is exported loads in plain peft and transformers."""

import asyncio
import hashlib
import io
import zipfile
from pathlib import Path

import psycopg
import pytest
import torch
from openai import AsyncOpenAI, BadRequestError, NotFoundError
from openai._legacy_response import HttpxBinaryResponseContent
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner, Result

from rft.platform.cli.app import app
from tests.shared.running_api import ROW
from tests.shared.served_models import ServedPlatform

PROMPT = torch.tensor([[30, 31, 32, 33, 34, 35]])


async def rft(platform: ServedPlatform, *arguments: object) -> Result:
    """The command line, told where the platform is."""
    environment = {"RFT_BASE_URL": f"{platform.api.url}/v1", "RFT_API_KEY": platform.api.key}
    words = [str(argument) for argument in arguments]
    return await asyncio.to_thread(CliRunner().invoke, app, words, env=environment)


def logits(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(input_ids=PROMPT).logits


def with_adapter(base_model: Path, folder: Path) -> torch.Tensor:
    return logits(PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base_model), str(folder)))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_models_tell_where_they_come_from(platform: ServedPlatform, client: AsyncOpenAI) -> None:
    listed = {model.id: model.to_dict() async for model in client.models.list()}
    for name, step in ((platform.model, 6), (platform.checkpoint(6), 6), (platform.checkpoint(2), 2)):
        told = (await client.models.retrieve(name)).to_dict()
        assert told == listed[name]
        assert (told["trained_from"], told["fine_tuning_job_id"]) == ("tiny", platform.job_id)
        assert (told["step_number"], told["valid_reward"]) == (step, step / 10)
        assert told["path"] == str(platform.folder(step))
    assert listed["tiny"]["trained_from"] is None


async def test_an_adapter_loads_in_plain_peft(
    platform: ServedPlatform, client: AsyncOpenAI, base_model: Path, tmp_path: Path
) -> None:
    content = await _download(client, platform.checkpoint(2))
    with zipfile.ZipFile(io.BytesIO(content)) as files:
        assert files.testzip() is None
        files.extractall(tmp_path)
    assert torch.equal(with_adapter(base_model, tmp_path), with_adapter(base_model, platform.folder(2)))
    assert not torch.equal(with_adapter(base_model, tmp_path), with_adapter(base_model, platform.folder(6)))
    template = (platform.folder(2) / "chat_template.jinja").read_text()
    assert AutoTokenizer.from_pretrained(tmp_path).chat_template == template
    assert not (tmp_path / "optimizer.pt").exists()
    card = (tmp_path / "README.md").read_text()
    for told in (
        platform.checkpoint(2),
        platform.job_id,
        "| 2 | - | 0.200 |",
        "| 4 | - | 0.400 |",
        "| 6 | - | 0.600 |",
        f"sha256 `{hashlib.sha256(ROW).hexdigest()}`",
    ):
        assert told in card
    assert "deleted" not in card
    assert "no validation file" in card, "the job of these checkpoints has none"
    with psycopg.connect(platform.database_url, autocommit=True) as connection:
        connection.execute("update files set expires_at = now()")
        gone = await _download(client, platform.checkpoint(2))
        connection.execute("update files set expires_at = null")
    assert "deleted" in zipfile.ZipFile(io.BytesIO(gone)).read("README.md").decode()


async def test_the_command_line_exports_the_adapter_or_the_whole_model(
    platform: ServedPlatform, base_model: Path, tmp_path: Path
) -> None:
    done = await rft(platform, "models", "export", platform.model, tmp_path / "adapter")
    assert done.exit_code == 0, done.output
    whole = await rft(
        platform, "models", "export", platform.model, tmp_path / "whole", "--merged", "--base", base_model
    )
    assert whole.exit_code == 0, whole.output
    expected = with_adapter(base_model, tmp_path / "adapter")
    assert torch.equal(expected, with_adapter(base_model, platform.folder(6)))
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "whole")
    torch.testing.assert_close(logits(merged), expected, atol=1e-4, rtol=1e-4)
    assert not list((tmp_path / "whole").glob("adapter_*"))
    assert 'AutoModelForCausalLM.from_pretrained(".")' in (tmp_path / "whole" / "README.md").read_text()
    template = (platform.folder(6) / "chat_template.jinja").read_text()
    assert AutoTokenizer.from_pretrained(tmp_path / "whole").chat_template == template
    assert names(tmp_path) == ["adapter", "whole"], "nothing else is left"


async def test_what_cannot_be_exported_leaves_nothing(platform: ServedPlatform, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").touch()
    refused = await rft(platform, "models", "export", platform.model, full)
    unknown = await rft(platform, "models", "export", "gpt-5", tmp_path / "new")
    lost = await rft(platform, "models", "export", platform.model, tmp_path / "new", "--merged", "--base", "/nowhere")
    assert (refused.exit_code, unknown.exit_code, lost.exit_code) == (1, 1, 1)
    assert "not empty" in refused.output
    assert "does not exist" in unknown.output
    assert "could not be merged" in lost.output
    assert names(tmp_path) == ["full"]
    assert names(full) == ["mine"]


async def test_base_models_and_pruned_checkpoints_have_no_adapter(
    platform: ServedPlatform, client: AsyncOpenAI
) -> None:
    with pytest.raises(BadRequestError) as raised:
        await _download(client, "tiny")
    assert raised.value.param == "model"
    with pytest.raises(NotFoundError, match="no longer kept"):
        await _download(client, platform.checkpoint(4))


async def _download(client: AsyncOpenAI, model: str) -> bytes:
    return (await client.get(f"/models/{model}/adapter", cast_to=HttpxBinaryResponseContent)).content
