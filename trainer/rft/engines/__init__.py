"""Samplers: over torch in this process, over vLLM servers; and the base model as they load it."""
