"""Environments: one episode at a time, many at once, and what people pass in their place."""
