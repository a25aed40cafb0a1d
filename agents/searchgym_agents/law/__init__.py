"""The law of transfer: scores on real questions, predicted from generated worlds alone."""
