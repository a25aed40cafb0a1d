"""Knowledge graphs, generated or imported, and what is computed on them."""
