// Webhooks: what is really sent is taken by the client's own check, also in rotation.

import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";

const TYPE = "fine_tuning.job.succeeded";

async function receiver() {
  const received = [];
  const server = http.createServer((request, answer) => {
    const pieces = [];
    request.on("data", (piece) => pieces.push(piece));
    request.on("end", () => {
      received.push({ headers: request.headers, body: Buffer.concat(pieces).toString() });
      answer.end();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { server, received, url: `http://127.0.0.1:${server.address().port}/` };
}

export default {
  // Called only of a version that has it: see the table of the test.
  "webhooks.endpoints": async ({ client }) => {
    const made = await client.webhooks.create({ name: "n", url: "http://127.0.0.1:9/" });
    assert.ok((await client.webhooks.delete(made.id)).deleted);
  },

  "webhooks.unwrap": async ({ client }) => {
    const { server, received, url } = await receiver();
    const post = (path, body) => client.post(`/webhook_endpoints${path}`, { body });
    const made = await post("", { name: "n", url, event_types: [TYPE] });
    const rotation = { keep_old_secret_active_for_24_hours: true };
    const renewed = await post(`/${made.id}/rotate_secret`, rotation);
    const told = await post(`/${made.id}/test`, { event_type: TYPE });
    server.close();
    assert.equal(told.status_code, 200);
    const [{ headers, body }] = received;
    for (const secret of [made.signing_secret, renewed.signing_secret]) {
      const event = await client.webhooks.unwrap(body, headers, secret);
      assert.equal(event.type, TYPE);
    }
  },
};
