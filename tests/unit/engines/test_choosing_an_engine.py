"""Which engine a spec gets."""

from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerBase

from rft.chat.hermes import HermesChatFormat
from rft.core.errors import RunFailed
from rft.core.graders import EndpointGrader
from rft.core.hyperparameters import Hyperparameters, resolve
from rft.core.spec import RunSecrets, RunSpec
from rft.engines.choose import open_engine
from rft.engines.paged_engine import PagedEngine
from rft.engines.slot_engine import SlotEngine
from rft.testing.samplers import FakeSampler
from rft.testing.samplers_tokenizer import ByteTokenizer
from tests.shared.by_hand import tiny_model


def spec(base_model: Path, engine: str) -> RunSpec:
    return RunSpec(
        job_id="job",
        seed=1,
        base_model=str(base_model),
        model_name="m",
        hyperparameters=resolve(Hyperparameters(), train_rows=4),
        tools=(),
        grader=EndpointGrader(name="g", url="http://127.0.0.1:1"),
        engine=engine,
    )


@pytest.fixture
def chat_format() -> HermesChatFormat:
    return HermesChatFormat(ByteTokenizer())


async def test_full_attention_everywhere_gets_slots(model_dir: Path, chat_format: HermesChatFormat) -> None:
    engine = open_engine(spec(model_dir, "transformers"), RunSecrets(), chat_format, model_dir)
    assert isinstance(engine, SlotEngine)
    assert engine.max_context_tokens == 512
    await engine.close()


async def test_sliding_windows_get_pages(
    model_dir: Path, chat_format: HermesChatFormat, tokenizer: PreTrainedTokenizerBase
) -> None:
    model = tiny_model(tokenizer)
    model.config.layer_types = ["full_attention", "sliding_attention"]
    model.config.sliding_window, model.config.use_sliding_window = 64, True
    model.save_pretrained(model_dir)
    engine = open_engine(spec(model_dir, "transformers"), RunSecrets(), chat_format, model_dir)
    assert isinstance(engine, PagedEngine)
    await engine.close()


def test_a_factory_is_taken_by_its_name(model_dir: Path, chat_format: HermesChatFormat) -> None:
    engine = open_engine(spec(model_dir, "rft.testing.samplers:fake_engine"), RunSecrets(), chat_format, model_dir)
    assert isinstance(engine, FakeSampler)


async def test_a_factory_is_taken_by_the_name_it_had_when_engines_belonged_to_the_trainer(
    model_dir: Path, chat_format: HermesChatFormat
) -> None:
    name = "rft.trainer.engines.choose:transformers_engine"
    engine = open_engine(spec(model_dir, name), RunSecrets(), chat_format, model_dir)
    assert isinstance(engine, SlotEngine)
    await engine.close()


@pytest.mark.parametrize("name", ["sglang", "no.such.module:x", "rft.testing.samplers:nothing", ":"])
def test_an_unknown_engine_is_refused_by_name(model_dir: Path, chat_format: HermesChatFormat, name: str) -> None:
    with pytest.raises(RunFailed, match=f"engine '{name}'") as failed:
        open_engine(spec(model_dir, name), RunSecrets(), chat_format, model_dir)
    assert failed.value.code == "unknown_engine"
