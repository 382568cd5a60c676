"""Renderers of what happens: the terminal, and rows of tables as plain readers see them."""
