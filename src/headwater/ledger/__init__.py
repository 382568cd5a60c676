"""What was written by which query and batch."""
