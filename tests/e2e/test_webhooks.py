"""A job of the stock client ends, and a receiver that the stock client's own function guards is told."""

import pytest


@pytest.fixture(scope="module")
def service(start_up):
    return start_up(CASTALIA_WEBHOOK_ALLOW="127.0.0.1", CASTALIA_SWEEP_S="0.2")


def test_the_success_of_a_job_is_told_to_a_receiver(client, service, receiver, rows_file, wait_for):
    endpoint = client.webhooks.create(
        name="ci",
        url=receiver.url,
        event_types=["fine_tuning.job.succeeded", "fine_tuning.job.failed"],
    )
    receiver.answers.append((500, {}))  # the first time it is told
    with rows_file(8).open("rb") as rows:
        file = client.files.create(file=rows, purpose="fine-tune")
    job = client.fine_tuning.jobs.create(
        model="toy", training_file=file.id, extra_body={"trainer": {"max_steps": 1}}
    )
    wait_for(lambda: len(receiver.received) == 2, service, limit_s=300)
    events = [
        client.webhooks.unwrap(body, headers, secret=endpoint.signing_secret)
        for headers, body in receiver.received
    ]
    assert events[0] == events[1]
    assert (events[0].type, events[0].data.id) == ("fine_tuning.job.succeeded", job.id)
    assert client.fine_tuning.jobs.retrieve(job.id).status == "succeeded"
