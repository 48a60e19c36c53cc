"""What our vLLM servers do otherwise on a CPU: adapters stay with their own tokens, and vLLM finds the plugin."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rft.vllm_server.command import ServerOptions, server_environment
from rft.vllm_server.server_side import rft_cpu_plugin as plugin

SLOTS, INPUTS, OUTPUTS = 4, 6, 5
slots_of_tokens = st.lists(st.integers(-1, SLOTS - 1), min_size=1, max_size=9)


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def one_by_one(inputs: Tensor, weights: Tensor, slots: list[int]) -> Tensor:
    """Token by token; nothing for those of the base model."""
    nothing = torch.zeros(OUTPUTS, dtype=torch.float64)
    products = [
        nothing if slot < 0 else weights[slot].reshape(OUTPUTS, INPUTS) @ token
        for token, slot in zip(inputs, slots, strict=True)
    ]
    return torch.stack(products)


@pytest.mark.parametrize("shape", [(SLOTS, OUTPUTS, INPUTS), (SLOTS, 1, OUTPUTS, INPUTS)])
@given(slots=slots_of_tokens)
def test_each_token_gets_its_own_adapter_and_those_of_the_base_model_none(
    shape: tuple[int, ...], slots: list[int]
) -> None:
    inputs, weights, written = drawn(len(slots), INPUTS), drawn(*shape), torch.tensor(slots)
    expected = one_by_one(inputs, weights, slots)
    shrunk = drawn(len(slots), OUTPUTS + 2)
    plugin.shrink(inputs, weights, shrunk, written, 0.5)
    torch.testing.assert_close(shrunk[:, :OUTPUTS], 0.5 * expected)
    torch.testing.assert_close(shrunk[:, OUTPUTS:], drawn(len(slots), OUTPUTS + 2)[:, OUTPUTS:])
    for is_added in (True, False):
        output, before = drawn(len(slots), 8), drawn(len(slots), 8)
        plugin.expand_slice(inputs, weights, output, written, 2, OUTPUTS, is_added)
        before[:, 2 : 2 + OUTPUTS] = expected + (before[:, 2 : 2 + OUTPUTS] if is_added else 0)
        torch.testing.assert_close(output, before)


class Wrapper:
    """What vLLM has of a batch, as far as the plugin reads it."""

    token_lora_indices: Tensor
    rft_tokens: object

    def update(self, slots: list[int]) -> None:
        self.token_lora_indices = torch.tensor(slots)


@given(batches=st.lists(slots_of_tokens, min_size=1, max_size=3), scale=st.sampled_from((1.0, 0.5)))
def test_layers_that_are_computed_as_one_get_their_own_weights_each(batches: list[list[int]], scale: float) -> None:
    rank, widths = 2, (OUTPUTS, OUTPUTS - 2)
    downs = [drawn(SLOTS, 1, rank, INPUTS), drawn(SLOTS, 1, rank, INPUTS) + 1]
    ups = [drawn(SLOTS, 1, width, rank) for width in widths]
    wrapper, update = Wrapper(), plugin.sorting_tokens(Wrapper.update)
    for slots in batches:  # Nothing stays of the batch before.
        update(wrapper, slots)
        inputs, outputs = drawn(len(slots), INPUTS), drawn(len(slots), sum(widths))
        expected = outputs.clone()
        for token, slot in enumerate(slots):
            if slot >= 0:
                of_layers = [up[slot, 0] @ (down[slot, 0] @ inputs[token]) for down, up in zip(downs, ups, strict=True)]
                expected[token] += scale * torch.cat(of_layers)
        plugin.add_linear(wrapper, outputs, inputs, downs, ups, scale, widths, buffer=None)
        torch.testing.assert_close(outputs, expected)


@pytest.mark.parametrize("columns", [OUTPUTS - 2, OUTPUTS, OUTPUTS + 2])
def test_model_and_adapter_may_be_padded_to_different_widths(columns: int) -> None:
    slots, both = [2, -1, 0], min(columns, OUTPUTS)
    inputs, weights, output = drawn(3, INPUTS), drawn(SLOTS, OUTPUTS, INPUTS), torch.zeros(3, columns).double()
    plugin.expand(inputs, weights, output, torch.tensor(slots))
    torch.testing.assert_close(output[:, :both], one_by_one(inputs, weights, slots)[:, :both])
    assert not output[:, both:].any()


def test_it_computes_in_the_outputs_type() -> None:
    output = torch.zeros(2, OUTPUTS, dtype=torch.float32)
    weights = drawn(SLOTS, OUTPUTS, INPUTS).bfloat16()
    plugin.expand(drawn(2, INPUTS).bfloat16(), weights, output, torch.tensor([1, 3]))
    assert output.dtype == torch.float32
    assert output.any()


def test_vllm_finds_it_in_every_process_of_a_server() -> None:
    environment = server_environment(ServerOptions("/m", 8000, is_cpu=True), api_key=None, inherited={})
    tell = (
        "from importlib.metadata import entry_points\n"
        "for point in entry_points(group='vllm.general_plugins'): print(point.name, point.load().__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", tell], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.split() == ["rft_cpu", "register"], done.stderr
    assert (Path(environment["PYTHONPATH"]) / "rft_cpu_plugin.py").exists()
