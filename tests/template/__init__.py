"""The generated parts of the template: `make template`."""
