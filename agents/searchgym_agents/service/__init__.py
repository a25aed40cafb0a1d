"""The service desk of a shop, as in MUA-RL (arXiv 2508.18669) and tau2-bench (arXiv 2506.07982): a
database of its own for each question, tools that read and write it, and a customer to be asked."""
