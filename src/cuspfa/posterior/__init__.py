"""What was learned: engine-neutral, in the user's units."""
