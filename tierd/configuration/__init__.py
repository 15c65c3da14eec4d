"""The configuration: the settings as values, as a table and as files."""
