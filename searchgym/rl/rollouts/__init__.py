"""How a task's group is played."""
