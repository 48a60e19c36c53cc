"""The only door to customer endpoints: guard, one attempt, classification, retry, limits."""
