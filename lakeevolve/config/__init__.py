"""Where lakeevolve keeps what it writes beside the tables."""
