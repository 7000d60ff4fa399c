"""Record what functions ask of AWS, and keep it in `recorded.json`."""

from tests.integration.rights.recorded import record, save

if __name__ == "__main__":
    save(record())
