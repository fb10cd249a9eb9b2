"""Ctrl-C while a job runs: the trainer saves after its step, and the next start goes on from there."""

import signal


def test_a_job_outlives_a_shutdown_of_everything(start_up, wait_for, rows_file):
    service = start_up()
    with service.client as client:
        file = client.files.create(file=rows_file(64), purpose="fine-tune")
        job = client.fine_tuning.jobs.create(
            model="toy",
            training_file=file.id,
            method={
                "type": "supervised",
                "supervised": {"hyperparameters": {"n_epochs": 40, "batch_size": 4}},
            },
            extra_body={"trainer": {"checkpoint": {"every": 1_000_000}}},
        )
        wait_for(lambda: client.fine_tuning.jobs.retrieve(job.id).progress["step"] >= 3, service)
    service.process.send_signal(signal.SIGINT)
    assert service.process.wait(60) == 0

    again = start_up(service.data)
    with again.client as client:
        wait_for(lambda: client.fine_tuning.jobs.retrieve(job.id).progress["attempts"] == 2, again)
        wait_for(lambda: "job.resumed" in codes(client, job.id), again)
        client.fine_tuning.jobs.cancel(job.id)
        wait_for(lambda: client.fine_tuning.jobs.retrieve(job.id).status == "cancelled", again)
        told = codes(client, job.id)
    assert "worker.lost" not in told
    assert told.index("job.handed_back") < told.index("job.resumed")


def codes(client, job_id):
    events = list(client.fine_tuning.jobs.list_events(job_id, limit=500))
    return [event.data["code"] for event in reversed(events)]
