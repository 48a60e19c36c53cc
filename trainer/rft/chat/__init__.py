"""Chat formats: messages and tool results to token ids, sampled tokens to text and tool calls, exactly."""
