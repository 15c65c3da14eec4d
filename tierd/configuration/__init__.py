"""What the user wants: the settings, as values, as a table and as files."""
