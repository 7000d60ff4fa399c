#!/bin/bash
# Starts the web server of a streaming function; the Lambda Web Adapter passes requests on to its port.
export PYTHONPATH="${LAMBDA_TASK_ROOT:-.}:/opt/python${PYTHONPATH:+:$PYTHONPATH}:${LAMBDA_RUNTIME_DIR:-}"
exec python3 -m stream "${AWS_LWA_PORT:-8080}"
