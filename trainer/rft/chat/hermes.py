"""The chat format of Hermes/Qwen-style templates."""

from rft.chat.syntaxes.tagged_json import HERMES
from rft.chat.template_format import TemplateChatFormat
from rft.chat.tokenizer import Tokenizer


class HermesChatFormat(TemplateChatFormat):
    """Reads `<tool_call>` JSON blocks. Raises ChatTemplateError as every `TemplateChatFormat`."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer, HERMES)
