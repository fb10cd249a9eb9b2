"""Castalia, the command: everything on one machine, and a thin client of the HTTP API."""
