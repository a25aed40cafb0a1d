"""One episode, free of input and output: its rules, contexts, turns, replay and records."""
