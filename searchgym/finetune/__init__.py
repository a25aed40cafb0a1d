"""Fine-tunes a pretrained language model to search, by demonstrations from generated worlds."""
