"""Seven slots that a training method is made of; a recipe fills each with a small object.

``records`` what passes between them · ``batch`` trajectories as tensors · ``protocols`` the slots ·
``registry`` names, import paths and options to objects · ``contracts`` what every object must keep,
to be called from your own tests
"""
