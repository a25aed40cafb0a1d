"""Data policies: the choice of the next tasks and of the groups that are trained on."""
