"""What the API must be told beyond what every process is: limits."""

from pydantic import Field

from core.store.settings import ServiceSettings
from core.webhooks.addresses import AllowSetting

GIB = 2**30


class ApiSettings(ServiceSettings):
    """Read from ``CASTALIA_*``."""

    max_upload_bytes: int = Field(8 * GIB, ge=1, description="Largest file, whole or in parts.")
    upload_lifetime_s: float = Field(
        3600.0 * 24, gt=0.0, description="Time in which an upload in parts must be completed."
    )
    webhook_allow: AllowSetting = ""
    max_body_bytes: int = Field(2**20, ge=1024, description="Largest JSON body.")
    patience_s: float = Field(
        30.0,
        gt=0.0,
        description="Time in which a request's head must come, and anything must move.",
    )
    slowest_bytes_s: float = Field(
        1024.0,
        ge=0.0,
        le=4096.0,
        description="Bytes a second that a body must come or be taken with.",
    )
    requests_per_minute: int = Field(
        30_000, ge=0, description="Most requests of one key in a minute; 0: no limit."
    )
    docs_pages: bool = Field(
        False, description="Serve /docs and /redoc, whose scripts a browser fetches from a CDN."
    )
    preview_limit_s: float = Field(
        120.0, gt=0.0, description="Longest time that a preview or a plan may take."
    )
    chat: bool = Field(False, description="Whether models can be talked to.")
    chat_queue: int = Field(8, ge=1, description="Chats that may wait; more are refused.")
    max_page: int = Field(
        1000, ge=1, le=10_000, description="Most items in one page of jobs or events."
    )
