"""The engine over one or more vLLM servers."""
