"""Webhooks on their way out: where one may go, how it is signed, sent once, and when it is tried again.

`Sender` (core.webhooks.send) is the way in. The API tries endpoints with it, the janitor's process delivers;
neither the database nor the server's side of HTTP is known here.
"""
