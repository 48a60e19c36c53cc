"""Asks the customer's grader for a verdict on a finished rollout."""
