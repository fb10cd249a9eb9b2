"""Answers: what a client reads, made from rows. Nothing here decides anything."""
