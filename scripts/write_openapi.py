"""Write docs/openapi.json, the description that the API serves, so that a change to it shows in a diff.

python scripts/write_openapi.py            # or `make docs`
"""

import json
from pathlib import Path

from api.app import create_app
from api.settings import ApiSettings

PAGE = Path(__file__).parent.parent / "docs" / "openapi.json"


def page() -> str:
    """The whole document. No server is asked: those named here are not there."""
    settings = ApiSettings(
        database_url="postgresql://localhost/none", broker_url="redis://localhost"
    )
    return json.dumps(create_app(settings).openapi(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
