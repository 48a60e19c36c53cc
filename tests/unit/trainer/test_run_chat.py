"""A run reads the same tokens from its first launch to its last."""

import json
from pathlib import Path

import pytest

from rft.chat.errors import ChatTemplateError
from rft.chat.opening import open_saved_chat
from rft.chat.saved_chat import weights_fingerprint
from rft.chat.template import fingerprint
from rft.core.chat_spec import ChatSpec, JobChat
from rft.core.errors import RunPaused
from rft.core.graders import EndpointGrader
from rft.core.hyperparameters import Hyperparameters, resolve
from rft.core.messages import Message, Role, ToolResult
from rft.core.spec import Budgets, RunSpec
from rft.engines.tokenizer import load_tokenizer
from rft.serving.chats import Chats
from rft.serving_wire.records import AdapterRef
from rft.trainer.run_chat import RunChat, open_run_chat

MESSAGES = [Message(role=Role.USER, content="What was the revenue of Alpine Foods in 2017?")]
RESULT = ToolResult(call_id="c", name="search", output="Alpine Foods/2017/41 <tool_call>")
CLOCK = "{{ strftime_now('%Y-%m-%d %H:%M:%S.%f') }}"


def opened(model_dir: Path, checkpoint: Path | None = None, chat: JobChat | None = None) -> RunChat:
    return open_run_chat(spec_of(model_dir, chat), load_tokenizer(str(model_dir)), checkpoint)


def spec_of(model_dir: Path, chat: JobChat | None = None) -> RunSpec:
    return RunSpec(
        job_id="j",
        seed=1,
        base_model=str(model_dir),
        chat=chat or JobChat(),
        model_name="m",
        hyperparameters=resolve(Hyperparameters(), train_rows=4),
        tools=(),
        grader=EndpointGrader(name="g", url="http://127.0.0.1:1"),
    )


@pytest.fixture
def checkpoint(model_dir: Path, tmp_path: Path) -> Path:
    """As a run leaves it whose template prints the time."""
    template = model_dir / "chat_template.jinja"
    template.write_text(CLOCK + template.read_text())
    folder = tmp_path / "checkpoint-1"
    folder.mkdir()
    load_tokenizer(str(model_dir)).save_pretrained(folder)
    opened(model_dir).saved.write(folder)
    return folder


def test_a_resumed_run_renders_what_it_did_at_its_beginning(model_dir: Path, checkpoint: Path) -> None:
    again, served = opened(model_dir, checkpoint), open_saved_chat(checkpoint)
    prompt = again.chat_format.prompt_ids(MESSAGES, ())
    assert prompt == served.prompt_ids(MESSAGES, ())
    assert again.chat_format.suffix_ids([RESULT]) == served.suffix_ids([RESULT])
    assert opened(model_dir).chat_format.prompt_ids(MESSAGES, ()) != prompt, "the clock stands still without this"


def test_a_template_that_was_changed_in_between_pauses_the_run_until_it_is_put_back(
    model_dir: Path, checkpoint: Path
) -> None:
    template = model_dir / "chat_template.jinja"
    before = template.read_text()
    template.write_text(before.replace(CLOCK, CLOCK + "Be brief. "))
    with pytest.raises(RunPaused, match=r"when the job began: the chat template\..* Put the earlier files") as paused:
        opened(model_dir, checkpoint)
    assert (paused.value.code, paused.value.param) == ("model_changed", "model")
    template.write_text(before)
    assert opened(model_dir, checkpoint).saved == opened(model_dir, checkpoint).saved


def test_a_base_that_was_built_anew_is_not_taken_for_the_one_that_was_trained(
    model_dir: Path, checkpoint: Path
) -> None:
    """As a starter is where it was left out of a backup: same shape, other weights."""
    served, adapter = Chats(str(model_dir), ChatSpec()), AdapterRef(directory=str(checkpoint))
    assert served.of(adapter, None).stop_token_ids
    weights = model_dir / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(RunPaused, match=r"when the job began: the weights\.") as paused:
        opened(model_dir, checkpoint)
    assert paused.value.code == "model_changed"
    with pytest.raises(ChatTemplateError, match="trained on other weights"):
        Chats(str(model_dir), ChatSpec()).of(adapter, None)

    record = checkpoint / "chat.json"
    known = json.loads(record.read_text())
    assert len(known.pop("weights_fingerprint")) == 16
    record.write_text(json.dumps(known))
    assert opened(model_dir, checkpoint).saved, "a checkpoint of an earlier release is taken as it is"
    assert Chats(str(model_dir), ChatSpec()).of(adapter, None)


def test_a_base_that_was_built_anew_before_anything_was_sampled_is_taken(model_dir: Path, checkpoint: Path) -> None:
    weights, template = model_dir / "model.safetensors", model_dir / "chat_template.jinja"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    found = open_run_chat(
        spec_of(model_dir), load_tokenizer(str(model_dir)), checkpoint, has_samples=False
    ).saved.record.weights_fingerprint
    assert found == weights_fingerprint(str(model_dir))
    template.write_text("Be brief. " + template.read_text())
    with pytest.raises(RunPaused, match=r"when the job began: the chat template\."):
        open_run_chat(spec_of(model_dir), load_tokenizer(str(model_dir)), checkpoint, has_samples=False)


def test_other_settings_of_the_chat_pause_the_run(model_dir: Path, checkpoint: Path) -> None:
    chat = JobChat(chat_template_kwargs={"enable_thinking": False})
    with pytest.raises(RunPaused, match="the variables of the chat template"):
        opened(model_dir, checkpoint, chat)


def test_a_checkpoint_of_an_earlier_release_is_gone_on_from(model_dir: Path, checkpoint: Path) -> None:
    (checkpoint / "chat.json").unlink()
    assert opened(model_dir, checkpoint).chat_format.stop_token_ids


def test_a_first_launch_holds_the_template_against_what_was_ordered(model_dir: Path) -> None:
    found = fingerprint((model_dir / "chat_template.jinja").read_text())
    assert opened(model_dir, chat=JobChat(template_fingerprint=found)).saved.template
    with pytest.raises(RunPaused, match="when the job began: the chat template"):
        opened(model_dir, chat=JobChat(template_fingerprint="0" * 16))


def test_an_effort_limits_thoughts_unless_the_order_does(model_dir: Path) -> None:
    spec = spec_of(model_dir).model_copy(update={"reasoning_effort": "low"})
    assert opened(model_dir).with_thought_limit(spec).budgets.max_reasoning_tokens is None, "it cannot be switched"
    template = model_dir / "chat_template.jinja"
    template.write_text("{% if enable_thinking %}{% endif %}" + template.read_text())
    chat = opened(model_dir)
    assert chat.with_thought_limit(spec).budgets.max_reasoning_tokens == spec.budgets.max_tokens // 8
    own = spec.model_copy(update={"budgets": Budgets(max_reasoning_tokens=7)})
    assert chat.with_thought_limit(own) == own
