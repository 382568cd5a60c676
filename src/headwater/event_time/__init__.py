"""Windows, watermarks and late rows: what event time means for a query."""
