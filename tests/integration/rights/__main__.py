"""Record the AWS calls of the functions, and keep them in `recorded.json`."""

from tests.integration.rights.recorded import record, save

if __name__ == "__main__":
    save(record())
