"""The routes, one module a noun."""
