"""A vLLM server of our own: its release, its environment, its command and its process."""
