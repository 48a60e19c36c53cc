"""Graders that we run ourselves, one module per kind."""
