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
    preview_limit_s: float = Field(
        120.0, gt=0.0, description="Longest time that a preview or a plan may take."
    )
    chat: bool = Field(False, description="Whether models can be talked to.")
    chat_queue: int = Field(8, ge=1, description="Chats that may wait; more are refused.")
    max_page: int = Field(
        1000, ge=1, le=10_000, description="Most items in one page of jobs or events."
    )
