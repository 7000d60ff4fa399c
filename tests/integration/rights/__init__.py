"""What each function of the template asks of AWS, recorded while its handler runs, beside what its role allows.

`python -m tests.integration.rights` records anew and writes `recorded.json`.
"""
