"""All that a trainer imports, in the process of which trainers are forked: one thread, and nothing run yet."""

import gc
import os
from importlib import import_module

from rft.engines.import_env import prepare_imports

os.environ["OMP_NUM_THREADS"] = "1"
prepare_imports()
import_module("rft.trainer.training")
gc.freeze()
