"""`cuspfa app`: a page in the browser to work on, served from this machine alone."""
