"""What runs: the session, the queries, and the pipeline that holds them together."""
