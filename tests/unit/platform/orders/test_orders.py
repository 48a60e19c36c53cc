"""Orders: what is redacted, what is sealed, what the trainer is told, how models are named."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rft.core.chat_spec import JobChat
from rft.core.graders import EndpointGrader
from rft.core.hyperparameters import Hyperparameters, LoraSpec, LossType, resolve
from rft.core.job import JobStatus
from rft.core.secret_urls import REDACTED
from rft.core.spec import Budgets, EarlyStop, RunSecrets, ToolServer
from rft.platform.jobs.model_names import checkpoint_model_name, final_model_name, parse
from rft.platform.jobs.repository import JobRow
from rft.platform.jobs.run_spec import STARTER_LEARNING_RATE, resolved, to_run_spec
from rft.platform.orders.redaction import redacted, redacted_method, redacted_request, secrets_of
from rft.platform.orders.schemas import JobCreate, Method
from rft.platform.settings import Settings
from rft.platform.store.secret_box import SecretBox, SecretsUnreadable

RESOLVED = resolve(Hyperparameters(), train_rows=10)


def an_order(**reinforcement: Any) -> JobCreate:
    """An order with a tool that has a secret."""
    method: dict[str, Any] = {
        "type": "reinforcement",
        "reinforcement": {
            "grader": {"type": "endpoint", "name": "judge", "url": "http://127.0.0.1/g", "headers": {"A": "s3cret"}},
            "tools": [{"name": "cat", "server_url": "http://127.0.0.1/t", "headers": {"K": "s3cret", "L": "s3cret"}}],
            **reinforcement,
        },
    }
    return JobCreate.model_validate(
        {"model": "tiny", "training_file": "file-1", "method": method, "future": {"headers": {"Z": "s3cret"}}}
    )


def a_job(order: JobCreate) -> JobRow:
    """The row of an order."""
    return JobRow(
        id="ftjob-ABCDEFGHIJKLMNOPQRSTUVWX",
        status=JobStatus.QUEUED,
        created_at=datetime.now(UTC),
        started_at=None,
        finished_at=None,
        model=order.model,
        base_model_path="/models/tiny",
        training_file=order.training_file,
        validation_file=None,
        suffix=None,
        seed=7,
        metadata=None,
        method=redacted_method(order.method),
        request=redacted_request(order),
        secrets=None,
        resolved=RESOLVED,
        error=None,
        fine_tuned_model=None,
        trained_tokens=None,
        result_files=(),
        current_step=None,
        total_steps=None,
        best_step=None,
        is_cancel_requested=False,
        model_deleted_at=None,
    )


def settings(tmp_path: Path, **values: Any) -> Settings:
    """Settings of no environment in particular."""
    return Settings.model_validate({"home": tmp_path, **values})


def test_no_header_value_is_stored_in_the_clear() -> None:
    order = an_order()
    for document in (redacted_method(order.method), redacted_request(order)):
        assert "s3cret" not in json.dumps(document)
        assert REDACTED in json.dumps(document)
    assert redacted_request(order)["future"] == {"headers": {"Z": REDACTED}}
    assert secrets_of(order.method) == RunSecrets(
        tool_headers={"cat": {"K": "s3cret", "L": "s3cret"}}, grader_headers={"A": "s3cret"}
    )


@pytest.mark.lengthy
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_masking_changes_nothing_but_headers_and_what_is_called_a_secret(document: Any) -> None:
    assert redacted(document) == document or re.search(
        "headers|authorization|key|token|secret|password", json.dumps(document).lower()
    )


def test_the_trainer_is_told_the_order(tmp_path: Path) -> None:
    order = an_order(
        max_episode_steps=200,
        budgets={"max_tokens": 99, "max_reasoning_tokens": 33, "deadline_s": 5},
        loss_type="grpo",
        lora={"rank": 4, "learning_rate": 0.01, "note": "kept"},
        max_importance_gap=0.7,
        early_stop={"plateau_evaluations": 3, "note": "kept"},
    )
    spec = to_run_spec(a_job(order), RESOLVED, settings(tmp_path, max_retries=1, allow_loopback=False), "/models/tiny")
    assert spec.tools == (
        ToolServer(name="cat", server_url="http://127.0.0.1/t", header_names=("K", "L"), timeout_s=600.0),
    )
    assert spec.grader == EndpointGrader(name="judge", url="http://127.0.0.1/g", header_names=("A",))
    assert spec.budgets == Budgets(
        max_tool_calls=200, max_tokens=99, max_reasoning_tokens=33, max_turns=202, deadline_s=5.0
    )
    assert spec.lora == LoraSpec(rank=4, alpha=32, learning_rate=0.01)
    assert (spec.loss_type, spec.seed, spec.base_model, spec.model_name) == ("grpo", 7, "/models/tiny", "tiny")
    assert (spec.retry.max_retries, spec.egress.allow_loopback, spec.max_importance_gap) == (1, False, 0.7)
    assert (spec.early_stop, spec.measures_best) == (EarlyStop(plateau_evaluations=3), True)
    assert "s3cret" not in spec.model_dump_json()


def test_the_trainer_is_told_how_to_update(tmp_path: Path) -> None:
    wanted = {"temperature": 0.8, "beta": 0.01, "epsilon": 0.2, "warmup_steps": 3, "lr_scheduler_type": "cosine"}
    order = an_order(
        hyperparameters=wanted, loss_type="gspo", lora={"target_modules": ["q_proj", "v_proj"]},
        budgets={"max_context_tokens": 4096},
    )  # fmt: skip
    job = a_job(order)
    plan = resolved(Method.model_validate(job.method).reinforcement, train_rows=40)
    here = settings(tmp_path)
    spec = to_run_spec(job, plan, here, "/models/tiny")
    assert (spec.temperature, spec.loss_type, spec.lora.target_modules) == (0.8, "gspo", ("q_proj", "v_proj"))
    assert spec.chat.max_context_tokens == 4096
    used = spec.hyperparameters
    assert (used.beta, used.epsilon, used.epsilon_high, used.warmup_steps) == (0.01, 0.2, 0.2, 3)
    assert used.lr_scheduler_type == "cosine"
    narrow = to_run_spec(job, plan, here, "/models/tiny", JobChat(max_context_tokens=2048))
    assert narrow.chat.max_context_tokens == 2048, "what is set for the model is the most"
    kept = plan.model_copy(update={"lora": LoraSpec(rank=3)})
    assert to_run_spec(job, kept, here, "/models/tiny").lora == LoraSpec(rank=3), "as it was resolved"


def test_the_trainer_is_told_the_settings_where_the_order_is_silent(tmp_path: Path) -> None:
    order = an_order(tools=None)
    wanted = settings(tmp_path, rollout_max_tokens=123, rollout_deadline_s=60, grader_timeout_s=9, max_importance_gap=3)
    spec = to_run_spec(a_job(order), RESOLVED, wanted, "/models/tiny")
    assert spec.tools == ()
    assert spec.budgets == Budgets(max_tokens=123, deadline_s=60.0)
    assert isinstance(spec.grader, EndpointGrader)
    assert spec.grader.timeout_s == 9.0
    assert (spec.loss_type, spec.max_importance_gap) == ("dapo", 3)


def test_the_trainer_is_told_how_the_models_chat_is_to_be_read(tmp_path: Path) -> None:
    chat = {"chat_format": "hermes", "max_context_tokens": 8192, "chat_template_kwargs": {"enable_thinking": False}}
    registered = settings(tmp_path, base_models={"tiny": {"path": "/models/tiny", **chat}, "plain": "/models/plain"})
    assert registered.base_model_paths == {"tiny": "/models/tiny", "plain": "/models/plain"}
    order = an_order(hyperparameters={"reasoning_effort": "low"})
    spec = to_run_spec(a_job(order), RESOLVED, registered, "/models/tiny")
    assert (spec.chat, spec.reasoning_effort) == (JobChat.model_validate(chat), "low")
    plain = a_job(an_order()).model_copy(update={"model": "plain"})
    spec = to_run_spec(plain, RESOLVED, registered, "/models/plain")
    assert (spec.chat, spec.reasoning_effort) == (JobChat(), "default")
    with pytest.raises(ValidationError):
        settings(tmp_path, base_models={"tiny": {"path": "/models/tiny", "chat_fromat": "hermes"}})


@pytest.mark.parametrize(("model", "rate"), [("starter", STARTER_LEARNING_RATE), ("tiny", 1e-4)])
def test_the_starter_learns_faster_than_a_real_model(tmp_path: Path, model: str, rate: float) -> None:
    job = a_job(an_order()).model_copy(update={"model": model})
    spec = to_run_spec(job, RESOLVED, settings(tmp_path, learning_rate=1e-4), "/models/any")
    assert spec.lora == LoraSpec(learning_rate=rate)


@pytest.mark.parametrize(
    ("suffix", "name"),
    [
        (None, "ft:org/base:7b:local::QRSTUVWX"),
        ("my run: 2/ä", "ft:org/base:7b:local:my-run-2:QRSTUVWX"),
        ("--x--", "ft:org/base:7b:local:x:QRSTUVWX"),
    ],
)
def test_names_of_models_can_be_taken_apart_again(suffix: str | None, name: str) -> None:
    job_id = "ftjob-ABCDEFGHIJKLMNOPQRSTUVWX"
    final = final_model_name(base_model="org/base:7b", organization="local", suffix=suffix, job_id=job_id)
    assert final == name
    parsed = parse(checkpoint_model_name(final, 12))
    assert parsed is not None
    assert (parsed.final, parsed.job_tail, parsed.step) == (name, job_id[-8:], 12)
    assert parse(final) == type(parsed)(final=name, job_tail=job_id[-8:], step=None)


@pytest.mark.parametrize("text", ["", "gpt-5", "ft:", "ft:a:b:c", "ft:a:b:c:short", "ft:a:b:c:ABCDEFGH:ckpt-step-x"])
def test_other_names_are_no_fine_tuned_models(text: str) -> None:
    assert parse(text) is None


def test_secrets_are_sealed_with_a_key_of_our_eyes_only(tmp_path: Path) -> None:
    secrets = RunSecrets(tool_headers={"cat": {"K": "s3cret"}})
    box = SecretBox.at(tmp_path / "home")
    sealed = box.seal(secrets)
    assert b"s3cret" not in sealed
    assert SecretBox.at(tmp_path / "home").unseal(sealed) == secrets
    key_file = tmp_path / "home" / "secret.key"
    assert key_file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in key_file.parent.iterdir()] == ["secret.key"]
    with pytest.raises(SecretsUnreadable):
        SecretBox.at(tmp_path / "elsewhere").unseal(sealed)


_CAPS = st.fixed_dictionaries({}, optional={"epsilon_high": st.sampled_from([0.2, 0.9, 1.0, 4.0, "auto"])})


@given(st.sampled_from(get_args(LossType)), st.none() | _CAPS, _CAPS)
def test_the_stored_method_of_every_accepted_order_can_be_read_again(
    loss_type: LossType, in_the_old_place: dict[str, Any] | None, in_the_method: dict[str, Any]
) -> None:
    whole = an_order(loss_type=loss_type).model_dump(exclude_unset=True)
    whole["method"]["reinforcement"]["hyperparameters"] = in_the_method
    try:
        order = JobCreate.model_validate({**whole, "hyperparameters": in_the_old_place})
    except ValidationError:
        assert loss_type == "cispo"
        return
    stored = Method.model_validate(redacted_method(order.method))
    assert stored.reinforcement.hyperparameters == order.method.reinforcement.hyperparameters
