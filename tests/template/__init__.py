"""What is generated of the template: `make template`."""
