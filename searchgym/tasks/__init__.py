"""Task families: questions asked about a world, and the proof that each has one answer."""
