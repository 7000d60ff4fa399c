"""The documentation as data: its pages, the wording it avoids, and the API reference that is generated."""
