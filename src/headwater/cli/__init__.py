"""The command line: one command per module, each with SUMMARY, configure(parser), run(args)."""
