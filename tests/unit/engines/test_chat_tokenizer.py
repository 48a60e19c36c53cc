"""The tokenizer is used as it was saved, and renders what the agent loop needs."""

import json
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerBase

from rft.chat.hermes import HermesChatFormat
from rft.core.messages import Message, Role, ToolResult
from rft.engines.base_model import load_base_model, max_context_tokens
from rft.engines.tokenizer import ChatTokenizer, UnusableModel, load_tokenizer, open_model_chat, stop_ids
from rft.trainer.policy import lora_config


def test_a_tokenizer_of_its_own_is_not_replaced_by_that_of_the_architecture(
    model_dir: Path, tokenizer: PreTrainedTokenizerBase
) -> None:
    loaded = load_tokenizer(str(model_dir))
    text = "What was the revenue of Alpine Foods in 2017? 41 7 123"
    assert loaded.encode(text) == tokenizer.encode(text)
    assert loaded.pad_token_id == tokenizer.pad_token_id


def test_stop_ids_are_the_tokenizers_and_the_generation_configs(model_dir: Path) -> None:
    loaded = load_tokenizer(str(model_dir))
    assert stop_ids(str(model_dir), loaded) == (loaded.eos_token_id,)
    (model_dir / "generation_config.json").write_text(json.dumps({"eos_token_id": [9, loaded.eos_token_id]}))
    assert stop_ids(str(model_dir), loaded) == (loaded.eos_token_id, 9)


def test_a_conversation_is_rendered_and_goes_on_without_encoding_again(model_dir: Path) -> None:
    loaded = load_tokenizer(str(model_dir))
    chat = ChatTokenizer(loaded, stop_ids(str(model_dir), loaded))
    chat_format = HermesChatFormat(chat)
    prompt = chat_format.prompt_ids([Message(role=Role.USER, content="hi")], ())
    assert chat.decode(prompt) == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    suffix = chat_format.suffix_ids([ToolResult(call_id="c", name="search", output="rows")])
    assert chat.decode(suffix).endswith("rows\n</tool_response><|im_end|>\n<|im_start|>assistant\n")
    call = '<tool_call>\n{"name": "search", "arguments": {"query": "x"}}\n</tool_call>'
    parsed = chat_format.parse([*chat.encode(call), *chat.stop_ids], call_id_seed=1)
    assert [c.name for c in parsed.tool_calls] == ["search"]
    assert chat_format.count_tokens("2017 2018") == 3


def test_models_that_cannot_be_used_say_why(model_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(UnusableModel, match="cannot be loaded"):
        load_tokenizer(str(tmp_path / "nowhere"))
    with pytest.raises(UnusableModel, match="cannot be loaded"):
        load_base_model(str(tmp_path))
    (model_dir / "chat_template.jinja").unlink()
    with pytest.raises(UnusableModel, match="the model has no chat template; put one"):
        open_model_chat(str(model_dir), load_tokenizer(str(model_dir)))


def test_the_adapter_covers_attention_and_mlp(model_dir: Path) -> None:
    from rft.core.hyperparameters import LoraSpec

    model = load_base_model(str(model_dir))
    assert max_context_tokens(model.config) == 512
    config = lora_config(model, LoraSpec())
    assert isinstance(config.target_modules, set)
    assert config.target_modules == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


def test_the_starter_is_opened_by_what_its_template_writes(model_dir: Path) -> None:
    loaded = load_tokenizer(str(model_dir))
    chat = open_model_chat(str(model_dir), loaded)
    before = HermesChatFormat(ChatTokenizer(loaded, stop_ids(str(model_dir), loaded)))
    assert (chat.name, chat.is_shipped, chat.round_trip.lists_tools) == ("hermes", False, False)
    assert chat.chat_format.stop_token_ids == before.stop_token_ids
    messages = [Message(role=Role.USER, content="What was the revenue of Alpine Foods in 2017?")]
    result = ToolResult(call_id="c", name="search", output="Alpine Foods/2017/41")
    assert chat.chat_format.prompt_ids(messages, ()) == before.prompt_ids(messages, ())
    assert chat.chat_format.suffix_ids([result]) == before.suffix_ids([result])


def test_a_model_that_cannot_use_tools_says_why(model_dir: Path) -> None:
    (model_dir / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    with pytest.raises(UnusableModel, match="has no place for tool calls"):
        open_model_chat(str(model_dir), load_tokenizer(str(model_dir)))
    (model_dir / "chat_template.jinja").write_text("{# <tool_call> #}{{ raise_exception('not today') }}")
    with pytest.raises(UnusableModel, match="not today"):
        open_model_chat(str(model_dir), load_tokenizer(str(model_dir)))
    (model_dir / "chat_template.jinja").write_text("{# <tool_call> #}{% if %}")
    with pytest.raises(UnusableModel, match="reading the chat template failed: TemplateSyntaxError"):
        open_model_chat(str(model_dir), load_tokenizer(str(model_dir)))
