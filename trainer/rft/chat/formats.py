"""The chat formats by name, and which of them a model may be."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rft.chat.syntax import TurnSyntax
from rft.chat.syntaxes.bare_json import BareJsonSyntax
from rft.chat.syntaxes.deepseek import DeepSeekSyntax
from rft.chat.syntaxes.gemma4 import Gemma4Syntax
from rft.chat.syntaxes.glm import GlmSyntax
from rft.chat.syntaxes.harmony import HarmonySyntax
from rft.chat.syntaxes.hermes import HermesSyntax
from rft.chat.syntaxes.mistral import MistralSyntax
from rft.chat.syntaxes.pythonic import PythonicSyntax
from rft.chat.syntaxes.xml_parameters import XmlParametersSyntax

AUTO = "auto"
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class Format:
    """A syntax, and a template that writes it where a model's own does not."""

    syntax: TurnSyntax
    shipped: str | None = None
    """File of a template of ours."""
    model_types: tuple[str, ...] = ()
    """Architectures that the shipped template is made for."""

    @property
    def shipped_template(self) -> str | None:
        """Its text."""
        return None if self.shipped is None else (_TEMPLATES / self.shipped).read_text()

    def is_written_by(self, template: str) -> bool:
        """Whether a template spells a mark of the syntax."""
        return any(marker in template for marker in self.syntax.markers)


FORMATS: dict[str, Format] = {
    known.syntax.name: known
    for known in (
        # Several write `<tool_call>`: what is more special comes first.
        Format(XmlParametersSyntax()),
        Format(GlmSyntax()),
        Format(HermesSyntax()),
        Format(MistralSyntax()),
        Format(DeepSeekSyntax(), "deepseek_v3.jinja", ("deepseek_v2", "deepseek_v3")),
        Format(HarmonySyntax()),
        Format(Gemma4Syntax()),
        Format(PythonicSyntax()),
        Format(
            BareJsonSyntax("llama3", markers=("<|start_header_id|>",), stop_literals=("<|eom_id|>",)),
        ),
        Format(
            BareJsonSyntax("gemma3", markers=("<start_of_turn>",), stop_literals=("<end_of_turn>",)),
            "gemma.jinja",
            ("gemma", "gemma2", "gemma3", "gemma3_text"),
        ),
    )
}
CONTROL_LITERALS = frozenset(literal for known in FORMATS.values() for literal in known.syntax.control_literals)


def candidates(wanted: str, template: str | None, model_type: str | None) -> Iterator[tuple[Format, str, bool]]:
    """Formats with the text of a template, and whether that is a shipped one; the model's own templates come first."""
    named = list(FORMATS.values()) if wanted == AUTO else [FORMATS[wanted]]
    if template is not None:
        yield from ((known, template, False) for known in named if wanted != AUTO or known.is_written_by(template))
    for known in named:
        shipped = known.shipped_template
        is_meant = wanted != AUTO or model_type in known.model_types
        if shipped is not None and (is_meant or (template is not None and known.is_written_by(template))):
            yield known, shipped, True
