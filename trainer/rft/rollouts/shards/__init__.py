"""Rollouts given out in shards to workers on any host, and read back through a run's inbox at the platform."""
