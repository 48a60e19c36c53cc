"""`python -m rft.trainer RUN_DIR`: one run, secrets as JSON on standard input (nothing there means none)."""

import os
import sys
from pathlib import Path

# Before torch is imported: spinning threads eat the cores that the customer's servers may share with us.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# scikit-learn is there for python graders, which run in processes of their own. transformers would spend two seconds on
# importing it, for a way of generating that we do not use.
sys.modules["sklearn"] = None  # pyright: ignore[reportArgumentType]


def main(arguments: list[str]) -> int:
    """0 when the run succeeded or was stopped, 1 when it failed, 2 when it could not even begin."""
    import logging

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        logging.error("usage: python -m rft.trainer RUN_DIR")
        return 2
    from pydantic import ValidationError

    from rft.core.garbage import collect_rarely
    from rft.core.spec import RunSecrets
    from rft.trainer.run import RunDirectoryBusy, run

    text = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()
    try:
        secrets = RunSecrets.model_validate_json(text) if text.strip() else RunSecrets()
    except ValidationError:
        logging.error("standard input is not the JSON of the run's secrets")  # Never quoted: it may hold them.
        return 2
    collect_rarely()
    try:
        ended = run(Path(arguments[0]), secrets)
    except RunDirectoryBusy as error:
        logging.error("%s", error)
        return 2
    return 1 if ended.outcome == "failed" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
