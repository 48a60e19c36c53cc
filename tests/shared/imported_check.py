"""All that `python -m rft.trainer.check` imports for a model with layers, in the process of which checks are forked."""

import os
from importlib import import_module

from rft.engines.import_env import prepare_imports

os.environ["OMP_NUM_THREADS"] = "1"  # A thread of the server would not be in its forks.
prepare_imports()
for _module in ("rft.chat.check", "rft.engines.architecture", "rft.trainer.model_figures"):
    import_module(_module)
