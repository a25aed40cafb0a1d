"""What is measured of played groups."""
