"""How signals become rewards."""
