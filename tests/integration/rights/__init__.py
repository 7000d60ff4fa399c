"""The AWS calls of each function of the template, recorded while its handler runs, beside the rights of its role.

`python -m tests.integration.rights` records the calls and writes `recorded.json`.
"""
