"""A streamed route as a web server in its Lambda, started by `stream.sh` behind the web adapter."""

import sys
from importlib import import_module

from turnstone.edge.cold_start import for_good

with for_good():
    import uvicorn

    from turnstone.http.server.hosting import BehindAdapter
    from turnstone.settings.config import LambdaSettings, load_settings

HOST = "127.0.0.1"
KEEP_ALIVE_S = 900  # the adapter closes first


def main(port: int) -> None:
    """Serve the route of the module in TURNSTONE_ROUTE_MODULE until the process is ended."""
    with for_good():
        module = import_module(str(load_settings(LambdaSettings).route_module))
        app = module.handler.app(BehindAdapter())
    uvicorn.run(
        app,
        host=HOST,
        port=port,
        log_config=None,
        loop="asyncio",  # one request at a time gains less from a quicker one than it takes to load
        access_log=False,
        lifespan="off",
        ws="none",
        timeout_keep_alive=KEEP_ALIVE_S,
        server_header=False,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
