"""What the store refuses. The API turns each into an answer; none of them is a fault of the server.

StoreError
  NotFound        no such row in this project
  Conflict        the row's state does not allow it
  LeaseLost       somebody else holds the job now: write nothing more
  ArtifactsDown   the artifact store cannot be reached, or is full
    ObjectMissing its answer is that an object is not there, or not whole
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
    """The state of the row does not allow the change; ``code`` is what a client is told."""

    def __init__(self, message: str, code: str = "invalid_job_state") -> None:
        self.code = code
        super().__init__(message)


class LeaseLost(StoreError):
    """The lease token is not the job's any more."""


class ArtifactsDown(StoreError):
    """The artifact store refused. Nothing was changed, and it may be asked again."""


class ObjectMissing(ArtifactsDown):
    """An object that a row names is not in the store, or ends early; one that is not mounted says so too."""
