"""Pages of other origins: their right to call the server from a browser, and to read its answers."""
