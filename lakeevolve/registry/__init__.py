"""A schema registry beside the tables: a small one of our own, and what a table holds against what a registry says."""
