"""Checkpoints as a trainer leaves them: random adapters with tokenizer and chat."""

from pathlib import Path

from rft.chat.opening import saved_chat
from rft.engines.tokenizer import load_tokenizer, open_model_chat
from rft.starter.tokenizer import build_tokenizer
from tests.shared.by_hand import tiny_model
from tests.shared.engine_contract import MakeModel, adapter
from tests.shared.served_models import STEPS, ServedPlatform

HEAD_STD = 0.5
"""Of the base model that they are adapters of."""


def save_adapters(platform: ServedPlatform, base_model: Path, make_model: MakeModel | None = None) -> None:
    """For every kept checkpoint of its job. `make_model`: the base model, where it is not the usual tiny one."""
    tokenizer = build_tokenizer()
    make = make_model or (lambda: tiny_model(tokenizer, head_std=HEAD_STD))
    opened = open_model_chat(str(base_model), load_tokenizer(str(base_model)))
    for step in (step for step, is_kept in STEPS.items() if is_kept):
        folder = platform.folder(step)
        adapter(folder, make, seed=step)
        tokenizer.save_pretrained(folder)
        saved_chat(opened).write(folder)
        (folder / "optimizer.pt").write_bytes(b"only a trainer reads this")
