"""Turnstone: a serverless home for AI agents."""

VERSION = "0.1.0"
