"""Training the candidate agent: trees of decision points, whole groups of actions."""
