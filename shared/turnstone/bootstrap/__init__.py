"""The only place that builds adapters and puts them into the services."""
