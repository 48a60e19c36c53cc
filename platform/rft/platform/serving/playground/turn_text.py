"""The text of a turn as it is told: once, although its process may be lost and the turn be sampled again."""

from dataclasses import dataclass


@dataclass(slots=True)
class TurnText:
    """What was told of one turn, and what its present attempt has said."""

    _told: str = ""
    _said: str = ""

    def begin(self) -> None:
        """Another attempt."""
        self._said = ""

    def more(self, text: str) -> str:
        """What is to be told now that the attempt has said this; empty where all of it was told."""
        self._said += text
        if self._told.startswith(self._said):
            return ""
        # The same seed need not say the same on every engine: then all of it is told, behind what nobody can take back.
        new = self._said.removeprefix(self._told) if self._said.startswith(self._told) else f"\n\n{self._said}"
        self._told = self._said
        return new
