"""Evals in the wire format of the hosted Evals service: definitions, runs, output items."""
