"""Calls the customer's tools on behalf of a rollout."""
