"""`castalia webhooks`: who is told when jobs end, and what became of what was told."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from castalia.client import open_client

app = typer.Typer(help="Webhook endpoints and what was sent to them.", no_args_is_help=True)

LISTED = 100
Limit = Annotated[int, typer.Option(min=1, max=1000)]


@app.command(name="list")
def list_(limit: Limit = LISTED) -> None:
    """List the project's endpoints, newest first."""
    with open_client() as client:
        found = client.get("/webhook_endpoints", limit=limit)["data"]
    for endpoint in found:
        state = "disabled" if endpoint["disabled_at"] else "active"
        typer.echo(f"{endpoint['id']}  {state:<10}{endpoint['name']:<16}{endpoint['url']}")


@app.command()
def deliveries(
    endpoint_id: Annotated[str, typer.Argument(help="As `castalia webhooks list` shows it.")],
    limit: Limit = LISTED,
) -> None:
    """List what was sent to an endpoint or is to be, newest first."""
    with open_client() as client:
        found = client.get(f"/webhook_endpoints/{endpoint_id}/deliveries", limit=limit)["data"]
    for delivery in found:
        about = f"{delivery['id']}  {delivery['data']['id']}  {delivery['type']}"
        typer.echo(f"{_time(delivery['created_at'])}  {about}  {_state(delivery)}")


def _state(delivery: dict[str, Any]) -> str:
    words = [delivery["status"], f"tried {delivery['attempts']}x"]
    if delivery["last_status_code"] is not None:
        words.append(f"HTTP {delivery['last_status_code']}")
    if delivery["last_problem"]:
        words.append(delivery["last_problem"])
    if delivery["next_attempt_at"]:
        words.append(f"again {_time(delivery['next_attempt_at'])}")
    return ", ".join(words)


def _time(unix: int) -> str:
    return f"{datetime.fromtimestamp(unix, UTC):%Y-%m-%d %H:%M:%S}"
