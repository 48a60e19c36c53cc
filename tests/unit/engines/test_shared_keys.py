"""On a GPU, keys that query heads share are copied for each of them where no kernel but plain attention could share."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.integrations import sdpa_attention

from rft.engines.shared_keys import copy_keys_where_needed, may_share


class OnGpu(torch.Tensor):
    """As far as Python asks."""

    is_cuda = True


def keys(dtype: torch.dtype, *, heads: int = 2) -> Tensor:
    return torch.zeros(1, heads, 6, 8, dtype=dtype).as_subclass(OnGpu)


@pytest.fixture(autouse=True)
def flash(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there for half precision alone, as on any GPU from Ampere on."""

    def can_use(params: Any) -> bool:
        return params.query.dtype is torch.bfloat16 and params.enable_gqa

    monkeypatch.setattr(torch.backends.cuda, "can_use_flash_attention", can_use)


@pytest.mark.parametrize(("dtype", "heads"), [(torch.bfloat16, 2), (torch.float32, 4)])
def test_attention_shares_keys_where_its_kernel_can(
    dtype: torch.dtype, heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[tuple[int, bool]]()

    def attend(query: Tensor, key: Tensor, value: Tensor, *, enable_gqa: bool = False, **_: object) -> Tensor:
        seen.append((key.size(1), enable_gqa))
        return query

    monkeypatch.setattr(sdpa_attention, "use_gqa_in_sdpa", sdpa_attention.use_gqa_in_sdpa)  # And restored.
    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", attend)
    copy_keys_where_needed()
    module: Any = SimpleNamespace(num_key_value_groups=2)
    sdpa_attention.sdpa_attention_forward(module, keys(dtype, heads=4), keys(dtype), keys(dtype), None)
    assert seen == [(heads, heads == 2)]


def test_others_are_as_transformers_has_them() -> None:
    on_cpu = torch.zeros(1, 2, 6, 8)
    assert may_share(None, on_cpu, on_cpu)
    mask = torch.ones(1, 1, 6, 6, dtype=torch.bool)
    for key in (on_cpu, keys(torch.bfloat16)):
        assert not may_share(mask, key, key)
