"""Generated worlds: schemas, names, facts, and the generator."""
