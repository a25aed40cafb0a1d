"""Questions that a person must be asked about, and what their answers are worth."""
