"""A tiny random model with the starter's tokenizer."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

from tests.shared.tiny_base import model_dir, tokenizer

__all__ = ("model_dir", "tokenizer")

torch.set_num_threads(1)
