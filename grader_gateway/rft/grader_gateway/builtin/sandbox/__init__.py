"""Runs the code of python graders where it can do nothing but compute (docs/decisions/0002)."""
