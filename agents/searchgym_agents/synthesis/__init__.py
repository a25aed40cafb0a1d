"""Synthesis systems of the literature: each module is one system, whose task families, operators
and samplers register themselves (``@register("task family:NAME")``)."""
