"""What a Python process does to itself before it runs code that nobody trusts; standard library and Linux only."""
