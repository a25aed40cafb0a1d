"""Published orderings, tested: which of two methods comes out ahead, here and in the papers.

An ordering is one declaration (``declared.Ordering``; all stand in ``published``): its source, what
was claimed, the arms, and the figures that are compared. ``measures`` has a function for each kind
of measurement, ``verdicts`` turns figures of several seeds into an interval and a verdict, and
``results`` measures piece by piece into a file. ``searchgym lab --orderings`` prints the table.
"""
