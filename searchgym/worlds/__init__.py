"""Generated worlds: schemas, entities, facts, names and phrasings."""
