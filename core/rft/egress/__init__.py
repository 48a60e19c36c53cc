"""The only way out to customer endpoints: guard, one attempt, classification, retry, limits."""
