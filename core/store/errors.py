"""What the store refuses. The API turns each into an answer; none of them is a fault of the server.

StoreError
  NotFound        no such row in this project
  Conflict        the row's state does not allow it
  LeaseLost       somebody else holds the job now: write nothing more
  ArtifactsDown   the artifact store cannot be reached, or is full
"""


class StoreError(Exception):
    """A request that the store will not carry out."""


class NotFound(StoreError):
    """No row of this kind with this id in this project. ``noun`` and ``id`` say which."""

    def __init__(self, noun: str, id: str) -> None:
        self.noun = noun
        self.id = id
        super().__init__(f"no {noun} with id '{id}' in this project")


class Conflict(StoreError):
    """The state of the row does not allow the change."""


class LeaseLost(StoreError):
    """The lease token is not the job's any more."""


class ArtifactsDown(StoreError):
    """The artifact store refused. Nothing was changed, and it may be asked again."""
