"""The specification of a run that samples with vLLM."""

from rft.core.devices import Devices
from rft.core.graders import EndpointGrader
from rft.core.hyperparameters import ResolvedHyperparameters
from rft.core.spec import RunSpec, VllmSpec


def vllm_run(base_model: str, vllm: VllmSpec, devices: Devices | None = None) -> RunSpec:
    """Of one step."""
    return RunSpec(
        job_id="job",
        seed=7,
        base_model=base_model,
        model_name="tiny",
        hyperparameters=ResolvedHyperparameters(
            n_epochs=1, batch_size=2, learning_rate_multiplier=1.0, compute_multiplier=1.0, eval_interval=2,
            eval_samples=1, group_size=2, steps=1,
        ),
        tools=(),
        grader=EndpointGrader(name="letters", url="http://127.0.0.1:1/grade"),
        engine="vllm",
        vllm=vllm,
        devices=devices,
    )  # fmt: skip
