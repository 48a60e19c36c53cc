"""A worker opens a run once a server of it can be used; otherwise it refuses the run, and may open it later."""

from pathlib import Path

import pytest

from rft.chat.opening import saved_chat
from rft.core.errors import RunPaused
from rft.rollouts.shards.wire import RunForWorkers
from rft.testing.loopback import LoopbackEndpoint
from rft.trainer.worker_run import open_worker_run
from tests.shared.given_out_run import (
    CONTEXT_TOKENS,
    GATEWAY_TOKEN,
    VLLM_KEY,
    Servers,
    TalkingVllm,
    chat_of,
    save_base_model,
    spec_of,
)

NOWHERE = "http://127.0.0.1:9"


async def test_a_run_whose_servers_cannot_be_used_is_refused_and_opened_later(tmp_path: Path) -> None:
    base_model = save_base_model(tmp_path / "tiny")
    saved = saved_chat(chat_of(base_model))
    for held_tokens, is_fit in ((CONTEXT_TOKENS - 1, False), (CONTEXT_TOKENS, True)):
        async with LoopbackEndpoint(TalkingVllm(base_model, max_model_len=held_tokens)) as vllm:
            servers = Servers(NOWHERE, (vllm.base_url,), f"{NOWHERE}/tool", f"{NOWHERE}/grade", NOWHERE, NOWHERE)
            run = RunForWorkers(
                spec=spec_of(servers, job_id="ftjob-1", base_model=base_model, is_given_out=True, callback_url=None),
                max_context_tokens=CONTEXT_TOKENS,
                chat=saved.record,
                chat_template=saved.template,
            )
            announced = run.model_dump_json()
            if is_fit:
                opened = await open_worker_run(announced, gateway_token=GATEWAY_TOKEN, vllm_api_key=VLLM_KEY)
                await opened.aclose()
            else:
                with pytest.raises(RunPaused, match="holds 2047 tokens, fewer than the 2048 of this job"):
                    await open_worker_run(announced, gateway_token=GATEWAY_TOKEN, vllm_api_key=VLLM_KEY)
