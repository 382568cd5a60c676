"""The web console: a store fed by histories, an API over it, and a page without a build step."""
