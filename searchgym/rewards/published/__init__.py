"""Rewards of published search agents, a method a file, registered by a line ``registered = "name"``
in their class. ``systems`` names the published systems whose reward it is."""
