"""`/v1/responses`: the same models through the shape of the Responses API. Nothing is stored."""
