"""What a job may be resumed with, on the wire. Ours: the contract has no such request."""

from pydantic import ConfigDict

from rft.platform.api.wire import TextBody
from rft.platform.orders.hyperparameter_fields import MaxImportanceGap


class ResumeOptions(TextBody):
    """What is not given stays. Nothing else of an order can be changed, so that what is misspelt is refused."""

    model_config = ConfigDict(extra="forbid")

    max_importance_gap: MaxImportanceGap | None = None
    """In place of the limit that the job was paused for."""
