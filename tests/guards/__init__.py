"""Every guard against a race, each with the test that goes red without it.

`python -m tests.guards` takes one guard after the other out of a copy of this tree and shows which test notices. The
guards stand by concept in the modules here; `guard.py` defines a guard, `races.py` the races.
"""
