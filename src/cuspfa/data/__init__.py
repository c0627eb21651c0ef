"""What an engine may know of the data, and where data may live."""
