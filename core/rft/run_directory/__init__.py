"""The run directory, the whole interface between platform and trainer: what both ends of it share."""
