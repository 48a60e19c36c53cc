"""`/v1/providers`: OpenAI-compatible endpoints whose models are measured beside ours, and every model by its name."""
