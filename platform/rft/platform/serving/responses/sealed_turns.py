"""What `encrypted_content` holds: a turn as it was sampled, readable with this installation's key alone.

Bound to what sampled it, and by a digest to the very ids that it answers: in any other conversation it does not fit.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from rft.core.base import Record
from rft.core.errors import RftError
from rft.core.ids import digest
from rft.platform.serving.served_model import ServedModel
from rft.platform.store.secret_box import SecretBox, SecretsUnreadable
from rft.serving_wire.records import SampledTurn


class NoSealedTurn(RftError):
    """Nothing that was sealed here, or not as it was sealed."""


class _SealedTurn(Record):
    kind: Literal["sampled turn"] = "sampled turn"
    organization: str
    model: str
    turn: SampledTurn


@dataclass(frozen=True, slots=True)
class TurnSeal:
    """Seals and opens the turns of one model for one organization."""

    secret_box: SecretBox
    organization: str
    model: str
    """Of what samples: base model and adapter."""

    def seal(self, turn: SampledTurn) -> str:
        """As the client gets it."""
        sealed = _SealedTurn(organization=self.organization, model=self.model, turn=turn)
        return self.secret_box.seal_text(sealed.model_dump_json()).decode()

    def open(self, sealed: str) -> SampledTurn | None:
        """None for a turn of another model. Raises NoSealedTurn."""
        try:
            opened = _SealedTurn.model_validate_json(self.secret_box.unseal_text(sealed.encode()))
        except (SecretsUnreadable, ValidationError) as error:
            raise NoSealedTurn("it was not sealed here, or has been changed") from error
        if opened.organization != self.organization:
            raise NoSealedTurn("it was sealed for another organization")
        return opened.turn if opened.model == self.model else None


def model_digest(model: ServedModel) -> str:
    """Of what samples; names of models may change their meaning, these do not."""
    directory = "" if model.adapter is None else model.adapter.directory
    return digest(model.base_model, directory).hex()
