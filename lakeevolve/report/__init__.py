"""One record, many renderings. Nothing outside this room formats a result."""
