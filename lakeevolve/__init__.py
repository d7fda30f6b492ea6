"""lakeevolve: evolve Iceberg and Delta tables the way Avro says a schema may evolve, and prove it."""
