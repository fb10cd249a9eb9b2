"""With URLs of servers that Castalia did not start, it starts none, and the job runs on them."""

from core.store.database import Database
from core.store.jobs import count_by_status


def test_a_job_runs_on_given_servers(start_up, empty_database_url, broker_url, rows_file, wait_for):
    service = start_up(CASTALIA_DATABASE_URL=empty_database_url, CASTALIA_BROKER_URL=broker_url)
    assert not list((service.data / "postgres").iterdir())
    assert not list((service.data / "valkey").iterdir())
    with service.client as client:
        file = client.files.create(file=rows_file(8), purpose="fine-tune")
        job = client.fine_tuning.jobs.create(
            model="toy", training_file=file.id, extra_body={"trainer": {"max_steps": 1}}
        )
        wait_for(lambda: client.fine_tuning.jobs.retrieve(job.id).status == "succeeded", service)
    database = Database(empty_database_url)
    with database.begin() as session:
        assert count_by_status(session)["succeeded"] == 1
    database.close()
