"""From user input to the data sources of the engines."""
