"""Agents and published methods: plug-ins of SearchGym that use its public packages alone."""
