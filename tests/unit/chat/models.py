"""Models to prove chat formats on: real tokenizers with their templates, TRL's templates of the other families, and
templates of ours in the manner of families that TRL has none of."""

import dataclasses
import importlib.util
import json
import lzma
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from rft.chat.model_folder import ModelFolder, read_model_folder
from rft.chat.model_tokenizer import ModelTokenizer
from rft.chat.opening import OpenedChat, open_chat

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
_OURS = Path(__file__).parent / "templates"
SHIPPED = ROOT / "tests" / "data" / "tokenizers"
BESIDE = ROOT.parent / "shared" / "data" / "tokenizers"
"""Tokenizers that may not be copied lie beside the checkout, where they are at all."""
SOME_DAY = datetime(2026, 11, 22, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a family is taken for."""

    chat_format: str
    is_shipped: bool = False
    is_parallel: bool = True


REAL = {
    "qwen3": Expected("hermes"),
    "mistral_nemo": Expected("mistral"),
    "deepseek_v3": Expected("deepseek_v3", is_shipped=True),
    "llama3_2": Expected("llama3", is_parallel=False),
    "gemma3": Expected("gemma3", is_shipped=True),
}
OF_TRL = {
    **dict.fromkeys(
        [
            *("qwen2_5", "qwen2_5_training", "qwen3_training", "qwen3_instruct_2507", "qwen3_instruct_2507_training"),
            *("qwen3_vl", "qwen3_vl_training"),
        ],
        Expected("hermes"),
    ),
    **dict.fromkeys(
        [
            *("qwen3_5_think", "qwen3_5_nothink", "qwen3_6", "qwen3_8", "qwen3_5_think_training", "qwen3_8_training"),
            *("nemotron_3_nano", "nemotron_3_super", "nemotron_3_ultra", "nemotron_3_5_lightning"),
            *("nemotron_3_nano_training", "nemotron_3_super_training", "nemotron_3_ultra_training"),
        ],
        Expected("qwen3_5"),
    ),
    **dict.fromkeys(["glm4moe", "glm4moe_training"], Expected("glm")),
    **dict.fromkeys(["gptoss", "gptoss_training"], Expected("gpt_oss", is_parallel=False)),
    **dict.fromkeys(
        ["gemma4", "gemma4_v2", "gemma4_v3", "gemma4_v4", "gemma4_v5", "diffusion_gemma"], Expected("gemma4")
    ),
    **dict.fromkeys(["lfm2_v2", "lfm2_v2_training", "lfm2_2_5", "lfm2_2_5_v2", "lfm2_2_5_vl"], Expected("lfm2")),
    "llama3_1": Expected("llama3", is_parallel=False),
    **dict.fromkeys(["gemma", "gemma_training", "gemma3_training"], Expected("gemma3", is_shipped=True)),
    **dict.fromkeys(["deepseekv3", "deepseek_r1_distill"], Expected("deepseek_v3", is_shipped=True)),
}
OF_OURS = {
    **{
        name: Expected(name) for name in ("seed_oss", "olmo3", "llama4", "granite3", "llama_nemotron", "function_gemma")
    },
    "granite4": Expected("hermes"),
    "phi4_mini": Expected("phi4_mini", is_shipped=True),
}
REFUSED = {
    "cohere": "no place for tool calls",
    "cohere2": "no place for tool calls",
    "phi3": "no place for tool calls",
    "phi3_5": "no place for tool calls",
    "qwen2_5_vl": "no place for tool calls",
    "llama3": "drops tool calls",
    "lfm2": "no place for tool calls",
    "muse_glimmer": "no place for tool calls",
}
"""Templates without tools, or with calls in a syntax that is not known."""
ALL = {**REAL, **OF_TRL, **OF_OURS}
_LITERAL = re.compile(
    r'<\|\w+\|?>|<\|"\|>|<\w+\|>|\[gMASK\]|<sop>|<(?:start|end)_of_turn>|</?think>|</?tool_\w+>|</?arg_\w+>|<｜[^｜]+｜>'
    r"|<(?:start|end)_function_\w+>|<escape>|</?seed:\w+>|</?function(?:_call)?s>|<\|/\w+\|>"
)
FEW_TOKENS = "qwen3 with few tokens"
"""Qwen3 with its own template and its most common tokens."""
_SMALL = 4096
_EOS = {
    "gemma4": "<turn|>",
    "diffusion_gemma": "<turn|>",
    "gemma": "<end_of_turn>",
    "function_gemma": "<end_of_turn>",
    "gptoss": "<|return|>",
    "glm": "<|endoftext|>",
    "cohere": "<|END_OF_TURN_TOKEN|>",
    "llama3": "<|eot_id|>",
    "phi": "<|end|>",
    "deepseek": "<｜end▁of▁sentence｜>",
    "muse": "<|eot|>",
    "seed_oss": "<seed:eos>",
    "llama4": "<|eot|>",
    "granite": "<|end_of_text|>",
    "llama_nemotron": "<|eot_id|>",
}


@cache
def folder_of(name: str) -> ModelFolder:
    """A model by its name in `ALL` or `REFUSED`, or `FEW_TOKENS`; skips, by name, what is not here."""
    if name == FEW_TOKENS:
        return _small_qwen3()
    if name not in REAL:
        return _with_template(
            name, _OURS.joinpath(f"{name}.jinja").read_text() if name in OF_OURS else trl_template(name)
        )
    place = SHIPPED / name if (SHIPPED / name).is_dir() else BESIDE / name
    if not place.is_dir():
        pytest.skip(f"the real tokenizer of {name} is not beside the checkout, so nothing is proven on it")
    with TemporaryDirectory() as folder:
        (Path(folder) / "tokenizer.json").write_bytes(lzma.decompress((place / "tokenizer.json.xz").read_bytes()))
        (Path(folder) / "tokenizer_config.json").write_bytes((place / "tokenizer_config.json").read_bytes())
        return read_model_folder(Path(folder))


def _with_template(name: str, template: str) -> ModelFolder:
    """Qwen3's most common tokens with the template of a family, and with all literals of that as special tokens."""
    base = _small_qwen3()
    eos = next((token for prefix, token in _EOS.items() if name.startswith(prefix)), "<|im_end|>")
    tokenizer = json.loads(base.tokenizer_json)
    added = tokenizer["added_tokens"]
    for literal in dict.fromkeys([*_LITERAL.findall(template), eos, "<bos>"]):
        if literal not in {token["content"] for token in added}:
            added.append({**added[0], "id": added[-1]["id"] + 1, "content": literal, "special": True})
    return dataclasses.replace(
        base,
        tokenizer_json=json.dumps(tokenizer),
        template=template,
        special_tokens={"eos_token": eos, "bos_token": "<bos>"},
    )


@cache
def _small_qwen3() -> ModelFolder:
    """Opens in a hundredth of the time."""
    base = folder_of("qwen3")
    tokenizer = json.loads(base.tokenizer_json)
    model = tokenizer["model"]
    model["vocab"] = {token: number for token, number in model["vocab"].items() if number < _SMALL}
    pairs = [merge if isinstance(merge, list) else merge.split(" ") for merge in model["merges"]]
    model["merges"] = [pair for pair in pairs if "".join(pair) in model["vocab"]]
    for number, token in enumerate(tokenizer["added_tokens"]):
        token["id"] = _SMALL + number
    return dataclasses.replace(base, tokenizer_json=json.dumps(tokenizer))


def trl_template(name: str) -> str:
    """A template that TRL ships."""
    spec = importlib.util.find_spec("trl")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "chat_templates" / f"{name}.jinja").read_text()


@cache
def opened(name: str) -> OpenedChat:
    """A model of `ALL` as a run would open it."""
    return open_chat(folder_of(name), now=SOME_DAY)


def tokenizer_of(chat: OpenedChat) -> ModelTokenizer:
    """Its tokenizer, with what only real ones have."""
    tokenizer = chat.chat_format.tokenizer
    assert isinstance(tokenizer, ModelTokenizer)
    return tokenizer
