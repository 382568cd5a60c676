"""SQL text to the same frozen definitions that Python declares; starts no JVM."""

from headwater.sql.files import parse, parse_folder
from headwater.sql.queries import select_body, tables_read

__all__ = ["parse", "parse_folder", "select_body", "tables_read"]
