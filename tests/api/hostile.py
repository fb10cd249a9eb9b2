"""Requests that no client library would send, as bytes; the same for the same seed."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote_from_bytes

MARK = "x-evil"
"""Stands in everything that tries to become a header of the answer."""

METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"]
ODD_METHODS = ["get", "BREW", "A" * 300, "P\x00ST", "GET ", "", "{}", "POST\t"]
ROUTES = [
    "/v1/files", "/v1/files/{}", "/v1/files/{}/content", "/v1/uploads", "/v1/uploads/{}/parts",
    "/v1/uploads/{}/complete", "/v1/uploads/{}/cancel", "/v1/fine_tuning/jobs", "/v1/models",
    "/v1/fine_tuning/jobs/{}", "/v1/fine_tuning/jobs/{}/cancel", "/v1/fine_tuning/jobs/{}/pause",
    "/v1/fine_tuning/jobs/{}/resume", "/v1/fine_tuning/jobs/{}/events", "/v1/models/{}",
    "/v1/fine_tuning/jobs/{}/checkpoints", "/v1/fine_tuning/alpha/graders/validate",
    "/v1/fine_tuning/alpha/graders/run", "/v1/trainer/plan", "/v1/trainer/preview",
    "/v1/trainer/schema", "/v1/webhook_endpoints", "/v1/webhook_endpoints/{}",
    "/v1/webhook_endpoints/{}/rotate_secret", "/v1/webhook_endpoints/{}/deliveries",
    "/v1/fine_tuning/checkpoints/{}/permissions", "/v1/chat/completions",
    "/healthz", "/metrics", "/openapi.json", "/docs", "/{}",
]  # fmt: skip
TRICKS = [
    "..%2f..%2f..%2fetc%2fpasswd", "../../../../etc/passwd", "..;/..;/", "%2e%2e/%2e%2e/", "....//",
    "%252e%252e%252f", "%c0%ae%c0%ae%c0%af", "%ff%fe", "%00", "file-%00", f"a%0d%0a{MARK}:%201",
    f"%E5%98%8A%E5%98%8D{MARK}:1", "%u0000", "%", "%zz", "'; drop table files; --", "${jndi:x}",
    "{{7*7}}", "a" * 3000, "%F0%9F%92%A3" * 200, "~", "*", "\\", "//evil.example/", "%ED%A0%80", "-1",
]  # fmt: skip
QUERIES = [
    "after={}", "limit=-1", "limit=99999999999999999999", "limit=1e3", "limit=%00", "order=%00",
    "after=%00", "after=%ff", "purpose=%00", "metadata[%00]=%00", "metadata[a]=" + "b" * 2000,
    "metadata=null", "metadata[]=", "stream=maybe", "&&&===", "limit=1&limit=2", "%ED%A0%80=1",
    "order=asc;drop", "after[]=1", "a" * 4000,
]  # fmt: skip
TYPES = [
    "application/json", "application/json; charset=utf-16", "multipart/form-data; boundary=x",
    "multipart/form-data", "multipart/form-data; boundary=" + "b" * 300, "text/plain", "",
    "application/x-www-form-urlencoded", "application/json\x0b", "image/svg+xml", "a/b; c=\xff",
]  # fmt: skip
HEADERS = [
    "host: evil.example", "host: [", "host: evil.example/%0d%0a", "host: ", "host: a\r\nhost: b",
    f"x-request-id: a%0d%0a{MARK}: 1", "x-request-id: " + "r" * 2000, "idempotency-key: \xff\xfe",
    "idempotency-key: " + "k" * 300, "idempotency-key: ", f"x-forwarded-host: {MARK}.example",
    "x-forwarded-for: ' or 1=1", "range: bytes=0-0,1-1,2-2", "range: bytes=-99999999999999999999",
    "range: bytes=5-2", "range: " + "bytes=" + "1-2," * 900, 'if-range: "\xff"', "last-event-id: %00",
    "last-event-id: \xff", "content-encoding: gzip", "expect: 100-continue", "expect: 200-ok",
    "upgrade: websocket\r\nconnection: upgrade", "upgrade: h2c", "http2-settings: AAA", "te: trailers",
    "cookie: " + "c=1;" * 500, f"origin: https://{MARK}.example", "x-stainless-retry-count: \xff",
    "x-http-method-override: DELETE", "accept: " + "*/*," * 400, f"a: b\n {MARK}: 1", "bad header: 1",
    "x-stainless-retry-count: 1", "openai-organization: \x00", "transfer-encoding: gzip, chunked",
    "content-length: 5\r\ncontent-length: 6", "content-length: -1", "content-length: 1e3",
    "content-length: 99999999999999999999", "transfer-encoding: chunked\r\ncontent-length: 3",
]  # fmt: skip
UPLOAD = (
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="../../../etc/cron.d/x"\r\n\r\nq\r\n'
    b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n--x--\r\n'
)
DOCUMENTS = [
    b"", b"{", b"null", b"[" * 50_000, b'{"a":' * 5_000, b"9" * 5000, b'{"seed": 1e999}', b"\xff\xfe",
    b'{"model": "\\ud800", "training_file": "x"}', b'{"model": NaN}', b"\x1f\x8b\x08\x00" + b"\x00" * 99,
    '{"model": "tiny"}'.encode("utf-16"), b'{"\\ud800": 1}', b'{"model": "tiny", "model": 3}',
    b'{"trainer": {"__class__": {}}}', b"--x--", b"--x\r\n\r\n\r\n--x--\r\n", b"\x00" * 5000,
    UPLOAD,
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a\r\n\r\nq\r\n--x--\r\n',
    b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nv\r\n' * 50 + b"--x--\r\n",
    b'--x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\nv\r\n' * 50 + b"--x--\r\n",
    b"--x\r\n" + b"h: v\r\n" * 3000 + b"\r\nv\r\n--x--\r\n", b"--x\r\n" + b"h" * 20_000,
]  # fmt: skip
KEYS = [
    "",
    "Bearer",
    "Bearer sk-castalia-" + "A" * 4000,
    "Basic eDp4",
    "Bearer \xff\x80",
    "bearer\t{}",
]
VALUES: list[object] = [
    None, True, -1, 0, 2**63, 2**400, 1.5, "", "\x00", "\u202e", "../../x", "a" * 2000, [], {}, [[]],
    {"kind": "apollo"}, {"type": "python", "name": "n", "source": "x"}, "auto", "tiny", "fine-tune",
]  # fmt: skip
FIELDS = [
    "model", "training_file", "validation_file", "trainer", "method", "metadata", "suffix", "seed",
    "hyperparameters", "integrations", "grader", "model_sample", "item", "filename", "purpose",
    "bytes", "mime_type", "part_ids", "md5", "line", "\x00", "__proto__", "a" * 500,
]  # fmt: skip


@dataclass(frozen=True)
class Attacker:
    """Who sends: a valid key of its own, and ids that belong to somebody else."""

    key: str
    foreign_ids: Sequence[str]

    def request(self, number: int) -> bytes:
        """One request, at times cut short."""
        dice = random.Random(number)
        pick: Callable[[Sequence[str]], str] = dice.choice
        method = pick(METHODS) if dice.random() < 0.93 else pick(ODD_METHODS)
        content = self._content(dice)
        lines = [f"{method} {self._target(dice)} HTTP/1.1", *self._headers(dice, len(content))]
        head = "\r\n".join(lines) + "\r\n\r\n"
        whole = head.encode("latin-1", errors="replace") + content
        return whole[: dice.randrange(len(whole))] if dice.random() < 0.01 else whole

    def _target(self, dice: random.Random) -> str:
        inserted = dice.choice([*self.foreign_ids, *TRICKS, *TRICKS])
        if dice.random() < 0.1:
            inserted = quote_from_bytes(dice.randbytes(dice.randrange(40)), safe="")
        path = dice.choice(ROUTES).replace("{}", inserted)
        if dice.random() < 0.1:
            path = dice.choice(["/", "//", "http://evil.example", "/v1/..", "/V1", "?", "*"]) + path
        query = dice.choice(QUERIES).replace("{}", dice.choice(self.foreign_ids))
        return path + "?" + query if dice.random() < 0.4 else path

    def _headers(self, dice: random.Random, length: int) -> list[str]:
        key = self.key if dice.random() < 0.8 else dice.choice(KEYS)
        lines = ["host: x", "connection: close", f"authorization: {key}"]
        lines += dice.sample(HEADERS, dice.choice([0, 0, 1, 3]))
        lines.append(f"content-type: {dice.choice(TYPES)}")
        if not any("content-length" in line or "transfer-encoding" in line for line in lines):
            lines.append(f"content-length: {length}")
        return lines if dice.random() < 0.9 else dice.sample(lines, len(lines))

    def _content(self, dice: random.Random) -> bytes:
        chance = dice.random()
        if chance < 0.4:
            return dice.choice(DOCUMENTS)
        if chance < 0.43:
            return dice.randbytes(dice.choice([1, 99_999, 100_001, 300_000]))
        ids = [*VALUES, *self.foreign_ids]
        fields = dice.sample(FIELDS, dice.randrange(len(FIELDS)))
        return json.dumps({field: dice.choice(ids) for field in fields}).encode()
