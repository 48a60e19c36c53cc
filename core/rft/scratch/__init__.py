"""Temporary folders that outlive no process for long, however it ends."""
