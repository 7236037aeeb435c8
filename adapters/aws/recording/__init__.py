"""Read a recording: AWS's own formats in a folder."""
