"""Critics, one file each: value models that are trained along with the policy.

``base`` what all share: a copy of the policy's body, its optimiser, checkpoints · ``registry`` a
critic from a recipe's table ``[critic]`` · ``contract`` what every critic must keep, to be called
from your own tests.

A class with a line ``registered = "name"`` is what ``[critic] use = "name"`` means.
"""
