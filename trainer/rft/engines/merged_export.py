"""`python -m rft.engines.merged_export ADAPTER DIR`: the base model with an adapter merged into it, as one model.

Weights in safetensors in the base model's own precision, the tokenizer, and the chat template that the adapter was
trained with. Loads in plain transformers and vLLM.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

from rft.engines.import_env import prepare_imports

if __name__ == "__main__":
    prepare_imports()

from peft import PeftModel
from transformers.utils.logging import disable_progress_bar

from rft.engines.architecture import auto_class_of, read_config
from rft.engines.base_model import keep_no_quantized_weights
from rft.engines.tokenizer import UnusableModel

_BESIDE = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja", "chat.json")
_SEES_WITH = ("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json")
_OF_BASE = ("generation_config.json", *_SEES_WITH)


def export_merged(adapter: Path, target: Path, base_model: str | None = None) -> None:
    """`base_model`: where it lies; None for where the adapter was trained from it. Raises OSError, ValueError,
    UnusableModel.
    """
    base = base_model or str(json.loads((adapter / "adapter_config.json").read_text())["base_model_name_or_path"])
    disable_progress_bar()
    config = read_config(base)
    keep_no_quantized_weights(config)
    model = auto_class_of(config).from_pretrained(base, config=config, dtype="auto")
    # By itself peft reads the adapter to a GPU first, on which a job may have left nothing free.
    merged = PeftModel.from_pretrained(model, str(adapter), torch_device="cpu").merge_and_unload()
    merged.save_pretrained(target, safe_serialization=True)
    for source, names in ((Path(base), (*_OF_BASE, *_BESIDE)), (adapter, _BESIDE)):
        for name in names:
            if (source / name).is_file():
                shutil.copyfile(source / name, target / name)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m rft.engines.merged_export", description=__doc__)
    parser.add_argument("adapter", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--base", help="where the base model lies, unless it is where it was trained")
    args = parser.parse_args()
    try:
        export_merged(args.adapter, args.target, args.base)
    except (OSError, ValueError, UnusableModel) as error:
        sys.exit(str(error).splitlines()[0])


if __name__ == "__main__":
    main()
