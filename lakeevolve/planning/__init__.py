"""Changes, capability and findings become a plan: ordered steps for one table, as a file."""
