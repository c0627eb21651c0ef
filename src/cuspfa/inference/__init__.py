"""The engines and what they share."""
