"""One module per syntax of tool calls."""
