"""Task families, the tasks they build from a world, and their proofs."""
