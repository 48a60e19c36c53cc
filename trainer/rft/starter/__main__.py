"""`python -m rft.starter DIRECTORY [--seed N]`: build a starter policy."""

import argparse
import sys
from pathlib import Path

from rft.engines.import_env import prepare_imports

if __name__ == "__main__":
    prepare_imports()

from rft.core.errors import RftError
from rft.starter import build

THREADS = 2


def main() -> None:
    """Build, print the report as JSON."""
    parser = argparse.ArgumentParser(prog="python -m rft.starter", description=__doc__)
    parser.add_argument("directory", type=Path, help="where the model goes; replaced when it exists")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=THREADS, help="threads of the tensor library")
    options = parser.parse_args()
    import torch
    from transformers.utils import logging

    torch.set_num_threads(options.threads)
    logging.disable_progress_bar()
    try:
        report = build(options.directory, options.seed)
    except RftError as error:
        sys.exit(str(error))
    sys.stdout.write(report.model_dump_json(indent=2) + "\n")


if __name__ == "__main__":
    main()
