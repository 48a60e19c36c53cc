"""The agent loop: torch-free, knows only Protocols for what samples, calls tools and grades."""
