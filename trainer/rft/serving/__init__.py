"""The process that answers chat from an engine: one base model and any adapters of it, as they were trained."""
