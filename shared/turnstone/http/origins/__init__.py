"""Pages of other origins: which may call the server from a browser, and what they may read."""
