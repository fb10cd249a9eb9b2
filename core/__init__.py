"""The core: what a fine-tuning job is, how it is stored and how it is trained. Nothing is imported here."""
