"""Spark below its Python surface: classes by name, and expressions that tell the driver."""
