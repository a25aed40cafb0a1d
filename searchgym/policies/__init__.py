"""Language models as policies: exact token ids, what was sampled, and how likely it was."""
