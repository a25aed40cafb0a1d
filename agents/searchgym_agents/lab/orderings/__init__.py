"""Published orderings of methods, measured again: which of two comes out ahead here.

``papers.toml`` declares them (source, claim, arms, what is compared), ``verdicts`` judges one by
the figures of several seeds, ``measurements``, ``training`` and ``searches`` have the
measurements, and ``results`` keeps what was measured in a file. ``searchgym lab --orderings``
prints the table.
"""
