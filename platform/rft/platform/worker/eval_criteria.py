"""An eval's criteria, ready to grade."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from rft.core.base import JsonObject
from rft.core.failure import Failure
from rft.core.finished_trace import FinishedTrace
from rft.core.grade import Grade
from rft.core.spec import RunSecrets
from rft.egress.endpoint_client import EndpointClient
from rft.grader_gateway.build import OpenGrader, open_any_grader
from rft.platform.evals.criteria import CRITERION_GRADER, names_sample, passing_score
from rft.platform.evals.repository import EvalRow
from rft.platform.evals.verdicts import Criterion, NoVerdict
from rft.platform.orders.grader_schemas import Grader
from rft.platform.orders.grader_specification import secrets_of_grader, to_grader_spec, to_judge
from rft.platform.settings import Settings
from rft.platform.store.secret_box import SecretBox

NO_SAMPLE = NoVerdict(
    "sample_missing",
    "The criterion's template names the sample, the item brings none, and the run samples none.",
)


@dataclass(frozen=True, slots=True)
class OpenCriteria:
    """The graders of a run. Close them when it is done."""

    criteria: tuple[Criterion, ...]
    graders: tuple[OpenGrader, ...]

    @classmethod
    def open(
        cls,
        eval_: EvalRow,
        box: SecretBox,
        settings: Settings,
        *,
        client: EndpointClient,
        secrets: RunSecrets,
        run_id: str,
    ) -> "OpenCriteria":
        """`secrets`: what the platform adds to each grader's own. Raises SecretsUnreadable."""
        criteria: list[Criterion] = []
        graders: list[OpenGrader] = []
        documents = cast("list[JsonObject]", json.loads(box.unseal_text(eval_.sealed)))
        for place, document in enumerate(documents, start=1):
            grader: Grader = CRITERION_GRADER.validate_python({k: v for k, v in document.items() if k != "id"})
            own = secrets_of_grader(grader)
            headers = {"grader_headers": own.grader_headers, "part_headers": own.part_headers}
            spec = to_grader_spec(grader, settings)
            opened = open_any_grader(
                spec,
                # Otherwise a server that honours keys would answer each criterion with what it said to the first.
                client=client.scoped(f"criterion-{place}") if len(documents) > 1 else client,
                secrets=secrets.model_copy(update=headers),
                judge=to_judge(settings),
                job_id=run_id,
            )
            graders.append(opened)
            criteria.append(Criterion(str(document["id"]), spec.type, passing_score(grader), names_sample(grader)))
        return cls(tuple(criteria), tuple(graders))

    async def grade(
        self, trace: FinishedTrace, *, item: JsonObject, trace_id: str, has_sample: bool
    ) -> Sequence[Grade | Failure | NoVerdict]:
        """One outcome by each criterion, in their order."""

        async def one(criterion: Criterion, grader: OpenGrader) -> Grade | Failure | NoVerdict:
            if criterion.names_sample and not has_sample:
                return NO_SAMPLE
            [outcome] = await grader.grade_group([trace], item=item, trace_ids=[trace_id])
            return outcome

        return await asyncio.gather(*map(one, self.criteria, self.graders))

    async def aclose(self) -> None:
        """Free what the graders hold."""
        for grader in self.graders:
            await grader.aclose()
