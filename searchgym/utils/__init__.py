"""What any part may use: whole files, bytes by key on disk, an event loop, limits of clients."""
