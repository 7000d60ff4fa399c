"""Leave of botocore's endpoints only those of some services: each start of a function reads all there are.

`trim_endpoints.py DATA SERVICE ...`: botocore's folder of descriptions, and the services by their folders there.
"""

import gzip
import json
import sys
from pathlib import Path


def trim(data: Path, services: list[str]) -> None:
    """Write the endpoints of these services, in all partitions, in place of all."""
    kept = {prefix_of(data / service) for service in services}
    file = data / "endpoints.json"
    endpoints = json.loads(file.read_text())
    for partition in endpoints["partitions"]:
        partition["services"] = {name: told for name, told in partition["services"].items() if name in kept}
    file.write_text(json.dumps(endpoints, separators=(",", ":")))


def prefix_of(service: Path) -> str:
    """Return what the endpoints call the service, as its newest description says."""
    (*_, newest) = sorted(service.glob("*/service-2.json.gz"))
    description = json.loads(gzip.decompress(newest.read_bytes()))
    prefix: str = description["metadata"]["endpointPrefix"]
    return prefix


if __name__ == "__main__":
    trim(Path(sys.argv[1]), sys.argv[2:])
