"""Agents: anything that answers turn requests with text."""
