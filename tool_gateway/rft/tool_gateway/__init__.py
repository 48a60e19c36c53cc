"""Calls the customer's tools for the agent loop: arguments checked, limits kept, failures told apart from mistakes."""
