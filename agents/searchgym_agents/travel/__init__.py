"""Trips to plan, after DeepTravel (arXiv 2509.21842): trains, hotels, places, hours, a budget."""
