"""What rollout workers need of the rest of an installation."""

from rft.core.hyperparameters import PolicyPin
from rft.core.spec import Engine, RolloutWorkersSpec
from rft.platform.api.errors import BadRequest
from rft.platform.settings import Settings

CODE = "rollout_workers_not_usable"
_PIN = "method.reinforcement.hyperparameters.policy_pin"


def rollout_workers_problem(settings: Settings) -> str | None:
    """Why jobs cannot have their rollouts run by workers, in words for the operator; None where nothing is amiss."""
    if settings.rollout_workers == "none":
        return None
    missing: list[str] = []
    if settings.engine != Engine.VLLM:
        missing.append(
            f"the engine `vllm` (RFT_ENGINE is `{settings.engine}`, which samples inside the trainer's own process,"
            " where no worker can ask it)"
        )
    if not settings.vllm_servers:
        missing.append("vLLM servers that workers reach, too (RFT_VLLM_SERVERS)")
    if settings.tool_gateway_url is None or settings.grader_gateway_url is None:
        missing.append(
            "both gateway services (RFT_TOOL_GATEWAY_URL and RFT_GRADER_GATEWAY_URL): workers are given no secrets, so"
            " the services make all calls"
        )
    if not missing:
        return None
    return f"RFT_ROLLOUT_WORKERS is `{settings.rollout_workers}`, and that needs {'; and '.join(missing)}."


def policy_pin_problem(settings: Settings, policy_pin: PolicyPin) -> str | None:
    """Why workers cannot run the rollouts of a job with this pin; None where nothing is amiss."""
    if settings.rollout_workers == "none" or policy_pin == "rollout":
        return None
    return (
        "Rollouts run in rollout workers here (RFT_ROLLOUT_WORKERS), which keep a rollout's policy version to its end:"
        f" `policy_pin` cannot be `{policy_pin}`."
    )


def refuse_unusable_workers(settings: Settings, policy_pin: PolicyPin) -> None:
    """Raises BadRequest where the job, or every job, would fail."""
    problem = rollout_workers_problem(settings)
    if problem is not None:
        raise BadRequest(f"No job can run here: {problem}", code=CODE)
    problem = policy_pin_problem(settings, policy_pin)
    if problem is not None:
        raise BadRequest(problem, param=_PIN, code=CODE)


def to_rollout_workers(settings: Settings) -> RolloutWorkersSpec | None:
    """What a run is told of them."""
    return None if settings.rollout_workers == "none" else RolloutWorkersSpec(platform_url=settings.own_url)
