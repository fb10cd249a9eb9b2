"""The HTTP surface: OpenAI's fine-tuning API, plus one object of our own, `trainer`. HTTP in, HTTP out."""
