"""What a rollout's reward and log-probabilities hang on, of a run's specification: a run may go on with another one."""

import hashlib
import json

from pydantic import JsonValue

from rft.core.spec import RunSpec, VllmSpec

_CHANGES_NO_REWARD = {
    "base_dtype",
    "devices",
    "early_stop",
    "egress",
    "grader_gateway_url",
    "hold",
    "keeps_tokens",
    "max_importance_gap",
    "measures_best",
    "micro_batch_tokens",
    "platform_failure_share",
    "replacement_share",
    "retry",
    "rollout_workers",
    "shard_base",
    "tool_gateway_url",
    "torch_threads",
}
"""How calls are made and counted, and what is done with rollouts. Whatever is not named here counts."""
_OF_SERVERS = set(VllmSpec.model_fields) - {"max_context_tokens"}


_SHOWN_SINCE = "what no judge is asked of is no better than its range"
"""What changed last of it, or of grades: verdicts of releases before and after do not belong in one group."""


def reward_terms(spec: RunSpec) -> str:
    """A digest: rollouts that were finished under another one are not worth the same now.

    Another URL is another server, which may judge otherwise. Header values (a new key) are no part of a specification,
    and the headers' names are left out, too.
    """
    fields = spec.model_dump(mode="json", exclude={**dict.fromkeys(_CHANGES_NO_REWARD, True), "vllm": _OF_SERVERS})
    fields["what_graders_are_shown"] = _SHOWN_SINCE
    return hashlib.sha256(json.dumps(_without_header_names(fields), sort_keys=True).encode()).hexdigest()


def _without_header_names(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _without_header_names(inner) for name, inner in value.items() if name != "header_names"}
    return [_without_header_names(inner) for inner in value] if isinstance(value, list) else value
