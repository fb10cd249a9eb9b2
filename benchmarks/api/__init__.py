"""How the HTTP API bears many readers, and how fast bytes go into and out of it."""
