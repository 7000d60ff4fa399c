"""Every guard against a race, each with the test that goes red without it.

`python -m tests.guards` takes one guard after the other out of a copy of this tree and shows which test notices. The
guards stand by concept in the modules here; `guard.py` says what one is, `races.py` which races there are.
"""
