"""Published orderings of methods, measured again: which of two comes out ahead here.

``ordering`` declares one (source, claim, arms, what is compared) and judges it by the figures of
several seeds, ``published`` lists them all, ``measurements``, ``training`` and ``searching`` have
the measurements, and ``results`` keeps what was measured in a file. ``searchgym lab --orderings``
prints the table.
"""
