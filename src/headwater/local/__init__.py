"""What a machine needs to run pipelines: a Java runtime, connector jars, local services."""
