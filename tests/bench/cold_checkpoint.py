"""How long the first token takes of a checkpoint that nobody has asked yet: with and without a process that serves its
base model."""

import asyncio
import json
import tempfile
import time
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer

from rft.chat.opening import saved_chat
from rft.core.base import JsonObject
from rft.engines.tokenizer import load_tokenizer, open_model_chat
from rft.platform.settings import Settings
from tests.bench.api_server import Served, api
from tests.bench.streams import ANYTHING, hear, through
from tests.shared.engine_contract import adapter
from tests.shared.running_api import Api, ReceivedMessages
from tests.shared.served_models import STEPS, finished_job

_MODEL = "tiny"
"""What the job's base model is called."""


async def cold_checkpoint(database_url: str, base_model: Path) -> JsonObject:
    """Seconds to the first token. Nothing of it has a bar: it is told beside the others."""
    with tempfile.TemporaryDirectory(prefix="rft-bench-cold-") as home:
        settings = Settings.model_validate({"home": home, "DATABASE_URL": database_url})
        models = json.dumps({_MODEL: str(base_model)})
        async with api(database_url, RFT_HOME=home, RFT_BASE_MODELS=models, RFT_SERVING_RESERVE_BYTES="0") as served:
            reached = Api(url=served.url, key=served.key, settings=settings, messages=ReceivedMessages())
            job_id = await finished_job(reached, database_url)
            kept = [step for step, is_kept in STEPS.items() if is_kept]
            for step in kept:
                folder = settings.runs_dir / job_id / f"checkpoints/checkpoint-{step}"
                await asyncio.to_thread(_save_adapter, folder, base_model, step)
            first, second = (f"ft:{_MODEL}:local::{job_id[-8:]}:ckpt-step-{step}" for step in kept)
            return {
                "no_process_s": await _first_s(served, first),
                "same_again_s": await _first_s(served, first),
                "another_adapter_s": await _first_s(served, second),
                "base_model_s": await _first_s(served, _MODEL),
            }


async def _first_s(served: Served, model: str) -> float:
    began = time.monotonic()
    heard = await hear(through(served, "/v1/chat/completions", model, ANYTHING))
    assert heard.ages_s, f"{model} said nothing within {time.monotonic() - began:.1f} s"
    return round(heard.first_s, 3)


def _save_adapter(folder: Path, base_model: Path, seed: int) -> None:
    """As a trainer leaves it."""
    adapter(folder, lambda: AutoModelForCausalLM.from_pretrained(base_model), seed=seed)
    AutoTokenizer.from_pretrained(base_model).save_pretrained(folder)
    opened = open_model_chat(str(base_model), load_tokenizer(str(base_model)))
    saved_chat(opened).write(folder)
