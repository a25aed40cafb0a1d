"""Seven slots that a training method is made of; a recipe fills each with a small object.

``records`` plans, groups, rewards · ``batch`` trajectories as tensors · ``protocols`` base classes
of the slots · ``registry`` names of registered objects · ``contracts`` checks of every object, to
be called from your own tests
"""
