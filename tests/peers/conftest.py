"""Tests with packages whose pins fit no other: ``make peers`` runs each file in an environment of
its own, which ``NAME.txt`` describes, and only there they are collected."""

import os

if "SEARCHGYM_PEER" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
