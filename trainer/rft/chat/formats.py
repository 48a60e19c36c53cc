"""The chat formats by name, and which of them a model may be."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rft.chat.syntax import TurnSyntax
from rft.chat.syntaxes.bare_json import BareJsonSyntax
from rft.chat.syntaxes.bare_keys import FUNCTION_GEMMA, GEMMA_4
from rft.chat.syntaxes.deepseek import DeepSeekSyntax
from rft.chat.syntaxes.glm import GlmSyntax
from rft.chat.syntaxes.harmony import HarmonySyntax
from rft.chat.syntaxes.llama4 import Llama4Syntax
from rft.chat.syntaxes.mistral import MistralSyntax
from rft.chat.syntaxes.pythonic import LFM2, OLMO3
from rft.chat.syntaxes.tagged_json import GRANITE_3, HERMES, LLAMA_NEMOTRON, PHI_4_MINI
from rft.chat.syntaxes.xml_parameters import QWEN3_5, SEED_OSS
from rft.chat.template import fingerprint

AUTO = "auto"
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class Format:
    """A syntax, and a template that writes it where a model's own does not."""

    syntax: TurnSyntax
    shipped: str | None = None
    """File of a template of ours."""
    model_types: tuple[str, ...] = ()
    """Architectures that the shipped template is made for, where a model has none."""
    replaces: tuple[str, ...] = ()
    """Fingerprints of the templates that it stands in for; none: of all whose marks are of no earlier syntax."""

    @property
    def shipped_template(self) -> str | None:
        """Its text."""
        return None if self.shipped is None else (_TEMPLATES / self.shipped).read_text()

    def is_written_by(self, template: str) -> bool:
        """Whether a template spells a mark of the syntax."""
        return any(marker in template for marker in self.syntax.markers)

    def may_replace(self, template: str | None, model_type: str | None) -> bool:
        """Whether the shipped template is made for a model with this template: an architecture says nothing of how a
        model that has one was taught to talk."""
        if template is None:
            return model_type in self.model_types
        return fingerprint(template) in self.replaces if self.replaces else self.is_written_by(template)


FORMATS: dict[str, Format] = {
    known.syntax.name: known
    for known in (
        # Several write `<tool_call>`: what is more special comes first.
        Format(SEED_OSS),
        Format(QWEN3_5),
        Format(GlmSyntax()),
        # Qwen3's own rewrites earlier turns once thinking is switched off; ours is TRL's training variant of it.
        Format(HERMES, "qwen3.jinja", replaces=("87a2728cb8dc9fe4", "a55ee1b1660128b7")),
        Format(LLAMA_NEMOTRON),
        # Both open calls alike; only Phi-4-mini's templates spell `<|tool|>`.
        Format(PHI_4_MINI, "phi4_mini.jinja"),
        Format(GRANITE_3),
        Format(MistralSyntax()),
        Format(DeepSeekSyntax(), "deepseek_v3.jinja", ("deepseek_v2", "deepseek_v3")),
        Format(HarmonySyntax()),
        Format(GEMMA_4),
        Format(FUNCTION_GEMMA),
        Format(LFM2),
        Format(OLMO3),
        Format(
            BareJsonSyntax("llama3", markers=("<|start_header_id|>",), stop_literals=("<|eom_id|>",), has_tag=True),
        ),
        Format(Llama4Syntax()),
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
    written = [known for known in FORMATS.values() if template is not None and known.is_written_by(template)]
    if template is not None:
        yield from ((known, template, False) for known in named if wanted != AUTO or known in written)
    for known in named:
        shipped = known.shipped_template
        # A model whose template has marks of another syntax was taught that one, also where it cannot be read back.
        is_own = known.replaces or not written or known is written[0]
        is_meant = (wanted != AUTO and not known.replaces) or (is_own and known.may_replace(template, model_type))
        if shipped is not None and is_meant:
            yield known, shipped, True
