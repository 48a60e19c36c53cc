"""One GPU for a server and an update: both get what they need, or the words say why not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rft.core.gpu_share import GpuMemory, GpuTooSmall, LeastNeeds, server_share, server_share_in_turns
from rft.core.model_check import ModelFigures

GIB = 2**30
QWEN_4B = ModelFigures(
    max_context_tokens=40_960,
    parameters=4_022_000_000,
    adapter_rank=16,
    adapter_layers=("q_proj",),
    adapter_parameters=33_000_000,
    adapted_parameters=3_600_000_000,
    activation_bytes_per_token=9_000_000,
    micro_batch_tokens=512,
    cache=None,
    has_gpu=True,
)
CACHE_BYTES = 2 * 2 * 8 * 128 * 36


def needs_of(context_tokens: int, update_bytes: int = 2, slots_bytes: int = 0) -> LeastNeeds:
    return LeastNeeds.of(
        QWEN_4B,
        cache_bytes_per_token=CACHE_BYTES,
        update_bytes=update_bytes,
        context_tokens=context_tokens,
        slots_bytes=slots_bytes,
    )


def test_a_model_of_4b_fits_a_gpu_of_48_gib_and_one_of_24_with_a_short_context() -> None:
    assert 0.35 < server_share(needs_of(16_384), GpuMemory(free=47 * GIB, total=48 * GIB)) < 0.5
    small = GpuMemory(free=23 * GIB, total=24 * GIB)
    assert 0.4 < server_share(needs_of(4096), small) < 0.5
    with pytest.raises(GpuTooSmall) as refused:
        server_share(needs_of(16_384), small)
    for words in ("23.0 GiB free of 24.0 GiB", "server for this model takes at least 11.7 GiB", "at least 18.1 GiB"):
        assert words in str(refused.value), str(refused.value)


def test_an_update_in_single_precision_takes_twice_the_base_model_and_its_activations() -> None:
    half, single = needs_of(4096), needs_of(4096, update_bytes=4)
    assert single.server == half.server
    activations = QWEN_4B.activation_bytes_per_token * 4096 // 8 if QWEN_4B.activation_bytes_per_token else 0
    assert single.update - half.update == 2 * QWEN_4B.parameters + activations // 2


def test_a_longer_context_takes_more_of_both() -> None:
    short, long = needs_of(2048), needs_of(32_768)
    assert long.server - short.server == CACHE_BYTES * (32_768 - 2048)
    assert long.update > short.update


def test_what_a_server_keeps_for_adapters_is_its_own_need() -> None:
    without, having = needs_of(4096), needs_of(4096, slots_bytes=5 * GIB)
    assert having == LeastNeeds(without.update, without.resident, without.server + 5 * GIB)


def test_in_turns_a_model_of_4b_has_its_whole_context_on_a_gpu_of_24_gib() -> None:
    small = GpuMemory(free=int(23.5 * GIB), total=24 * GIB)
    with pytest.raises(GpuTooSmall, match="they do not fit together"):
        server_share(needs_of(12_288), small)
    assert 0.5 < server_share_in_turns(needs_of(12_288), small) < 0.6
    with pytest.raises(GpuTooSmall, match=r"of which it keeps 9\.\d GiB between updates: they do not fit, not even"):
        server_share_in_turns(needs_of(40_960), small)


@st.composite
def needs(draw: st.DrawFn) -> LeastNeeds:
    update = draw(st.integers(0, 80 * GIB))
    return LeastNeeds(update=update, resident=draw(st.integers(0, update)), server=draw(st.integers(1, 80 * GIB)))


@given(needs(), st.integers(0, 141 * GIB), st.integers(0, 10 * GIB))
def test_in_turns_the_server_has_what_the_trainer_does_not_keep(needs: LeastNeeds, free: int, used: int) -> None:
    gpu = GpuMemory(free=free, total=free + used + 1)
    try:
        share = server_share_in_turns(needs, gpu)
    except GpuTooSmall:
        assert needs.resident + needs.server > free or needs.update + 2 * GIB > free
        return
    assert share <= 0.9
    assert share * gpu.total <= free - needs.resident + 1
    assert share == 0.9 or share * gpu.total >= needs.server - 1
    assert needs.update <= free


@given(needs(), st.integers(0, 141 * GIB), st.integers(0, 10 * GIB))
def test_whatever_fits_each_of_them_gets_what_it_needs(needs: LeastNeeds, free: int, used: int) -> None:
    gpu = GpuMemory(free=free, total=free + used + 1)
    if needs.update + needs.server > free:
        with pytest.raises(GpuTooSmall):
            server_share(needs, gpu)
        return
    share = server_share(needs, gpu)
    assert 0 < share <= 0.9
    assert share * gpu.total <= free - needs.update + 1
    assert share == 0.9 or share * gpu.total >= needs.server - 1
