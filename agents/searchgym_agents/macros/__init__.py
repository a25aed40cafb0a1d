"""A small learner for environments of several tools: it chooses among macro-actions, which a reader
of the environment fills in, and learns by the policy gradient from rewards alone."""
