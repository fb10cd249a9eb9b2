"""What is sent goes to the address that was looked at, once, and no answer can hold the sender."""

import socket
import ssl
import subprocess
import threading
import time
from datetime import UTC, datetime

import pytest

from core.spec.webhook import WebhookEvent
from core.webhooks.addresses import AllowList
from core.webhooks.send import Sender

SECRET = f"whsec_{'A' * 43}="
LOOPBACK = AllowList.parse("127.0.0.0/8")
NOBODY = "127.0.0.2"


@pytest.fixture
def event():
    return WebhookEvent("evt_1", "fine_tuning.job.failed", 1_700_000_000, {"id": "ftjob-1"})


@pytest.fixture
def send(event):
    def do(url, allow=LOOPBACK, **options):
        return Sender(allow, **options).send(url, event, [SECRET], datetime.now(UTC))

    return do


def test_an_event_arrives_as_it_is(send, receiver, event):
    assert send(receiver.url).accepted
    [(headers, body)] = receiver.received
    assert body == event.body
    assert headers["host"] == f"127.0.0.1:{receiver.port}"
    assert headers["content-type"] == "application/json"
    assert headers["webhook-id"] == "evt_1"


def test_a_name_is_told_to_the_receiver_though_an_address_is_connected_to(send, receiver):
    asked = []

    def resolve(host, port):
        asked.append((host, port))
        return ["127.0.0.1"]

    assert send(f"http://hooks.example:{receiver.port}/a?b=c", resolve=resolve).accepted
    assert asked == [("hooks.example", receiver.port)]
    assert receiver.received[0][0]["host"] == f"hooks.example:{receiver.port}"


def test_a_host_that_begins_to_lead_inside_is_not_connected_to(receiver):
    answers = [["8.8.8.8"], ["127.0.0.1"]]
    sender = Sender(AllowList(), resolve=lambda *_: answers.pop(0))
    url = f"https://hooks.example:{receiver.port}/"
    sender.check(url)
    event = WebhookEvent("evt_1", "fine_tuning.job.failed", 0)
    answer = sender.send(url, event, [SECRET], datetime.now(UTC))
    assert answer.status is None
    assert "not on the public Internet" in answer.problem
    assert receiver.received == []


def test_the_next_address_of_a_host_is_tried(send, receiver):
    addresses = [NOBODY, "127.0.0.1"]
    assert send(f"http://h.example:{receiver.port}/", resolve=lambda *_: addresses).accepted


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(send, receiver, new_receiver, status):
    inside = new_receiver()
    receiver.answers.append((status, {"location": inside.url}))
    answer = send(receiver.url)
    assert (answer.status, answer.accepted) == (status, False)
    assert inside.received == []


def test_a_proxy_of_the_environment_is_not_used(send, receiver, new_receiver, monkeypatch):
    proxy = new_receiver()
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    assert send(receiver.url).accepted
    assert proxy.received == []


def test_a_receiver_that_does_not_answer_is_left_after_the_limit(send, receiver):
    receiver.may_answer.clear()
    answer = send(receiver.url, limit_s=0.2)
    assert answer.status is None
    assert len(receiver.received) == 1


def test_a_receiver_that_answers_a_byte_at_a_time_is_left_after_the_limit(send, dripping):
    began = time.monotonic()
    answer = send(f"http://127.0.0.1:{dripping(b'HTTP/1.1 200 OK')}/", limit_s=0.3)
    assert answer.problem == "no answer within 0.3 s"
    assert time.monotonic() - began < 5


def test_of_an_answer_nothing_is_read_behind_its_head(send, dripping):
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n"
    assert send(f"http://127.0.0.1:{dripping(head, at_once=True)}/", limit_s=5).status == 200


def test_an_answer_whose_head_has_no_end_is_told_as_none(send, dripping):
    head = b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000
    answer = send(f"http://127.0.0.1:{dripping(head, at_once=True)}/", limit_s=5)
    assert answer.status is None
    assert "ProtocolError" in answer.problem


def test_a_closed_door_is_told(send):
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        answer = send(f"http://127.0.0.1:{door.getsockname()[1]}/")
    assert answer.problem.startswith("ConnectError")


def test_the_certificate_must_be_that_of_the_name(send, new_receiver, certificate):
    receiver = new_receiver(_server_context(certificate))
    trusting = ssl.create_default_context(cafile=certificate)
    here = {"resolve": lambda *_: ["127.0.0.1"]}
    url = f"https://hooks.example:{receiver.port}/"
    assert send(url, tls=trusting, **here).accepted
    other = send(url.replace("hooks", "other"), tls=trusting, **here)
    assert "CERTIFICATE_VERIFY_FAILED" in other.problem
    assert "CERTIFICATE_VERIFY_FAILED" in send(url, **here).problem
    assert len(receiver.received) == 1


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Of hooks.example, with its key, in one file."""
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    subject = ["-subj", "/CN=hooks.example", "-addext", "subjectAltName=DNS:hooks.example"]
    out = ["-keyout", str(path), "-out", f"{path}.crt"]
    subprocess.run([*command.split(), *subject, *out], check=True, capture_output=True)
    path.write_text(path.read_text() + path.with_name("both.pem.crt").read_text())
    return str(path)


def _server_context(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def dripping():
    """Listens, and says these bytes one in 50 ms or all at once, and no more; the port."""
    end, threads = threading.Event(), []

    def listen(said, *, at_once=False):
        door = socket.create_server(("127.0.0.1", 0))

        def serve():
            with door, door.accept()[0] as peer:
                for piece in [said] if at_once else [said[i : i + 1] for i in range(len(said))]:
                    peer.sendall(piece)
                    if end.wait(0 if at_once else 0.05):
                        return
                end.wait(30)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return door.getsockname()[1]

    yield listen
    end.set()
    for thread in threads:
        thread.join()
