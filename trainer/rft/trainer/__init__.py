"""The trainer: a program with one input (a run directory) and one output (events and checkpoints)."""
