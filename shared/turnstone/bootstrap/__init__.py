"""Building of adapters and of the services over them, in no other folder."""
