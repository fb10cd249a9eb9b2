// Files and uploads.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import fs from "node:fs";
import { OpenAI, all, refused } from "./case.mjs";

const HOUR = { anchor: "created_at", seconds: 3600 };
const PART_BYTES = 500;

async function small(stage, more = {}) {
  const file = await OpenAI.toFile(Buffer.from("a"), "a.txt");
  return stage.client.files.create({ file, purpose: "user_data", ...more });
}

function asked(bytes, more = {}) {
  return { bytes, filename: "a.txt", mime_type: "text/plain", purpose: "user_data", ...more };
}

async function part(stage, upload, bytes) {
  const data = await OpenAI.toFile(bytes, "part");
  return stage.client.uploads.parts.create(upload.id, { data });
}

async function inParts(stage, md5) {
  const content = fs.readFileSync(stage.told.rows.chat);
  const upload = await stage.client.uploads.create(asked(content.length));
  const part_ids = [];
  for (let start = 0; start < content.length; start += PART_BYTES) {
    part_ids.push((await part(stage, upload, content.subarray(start, start + PART_BYTES))).id);
  }
  return stage.client.uploads.complete(upload.id, { part_ids, md5: md5 ?? hash("md5", content) });
}

function hash(kind, content) {
  return createHash(kind).update(content).digest("hex");
}

async function bytesOf(answer) {
  return Buffer.from(await answer.arrayBuffer());
}

export default {
  "files.create": async (stage) => {
    const file = await stage.upload("chat");
    assert.deepEqual([file.object, file.purpose], ["file", "fine-tune"]);
    assert.equal(file.bytes, fs.statSync(stage.told.rows.chat).size);
    assert.equal((await stage.client.files.retrieve(file.id)).id, file.id);
  },

  "files.pages": async (stage) => {
    const made = [];
    for (let number = 0; number < 3; number += 1) made.push((await small(stage)).id);
    const listed = await all(stage.client.files.list({ purpose: "user_data", limit: 1 }));
    const ours = listed.map((file) => file.id).filter((id) => made.includes(id));
    assert.deepEqual(ours, made.reverse());
  },

  "files.content": async (stage) => {
    const file = await stage.upload("chat");
    const content = await bytesOf(await stage.client.files.content(file.id));
    assert.ok(content.equals(fs.readFileSync(stage.told.rows.chat)));
  },

  "files.delete": async (stage) => {
    const file = await small(stage);
    const deleted = await stage.client.files.delete(file.id);
    assert.deepEqual([deleted.id, deleted.object, deleted.deleted], [file.id, "file", true]);
    await refused(OpenAI.NotFoundError, stage.client.files.retrieve(file.id));
  },

  "files.wait_for_processing": async (stage) => {
    for (const [shape, status] of [["chat", "processed"], ["broken", "error"]]) {
      const checked = await stage.checked((await stage.upload(shape)).id);
      assert.equal(checked.status, status);
    }
  },

  "files.expires_after": async (stage) => {
    const file = await small(stage, { expires_after: HOUR });
    assert.equal(file.expires_at, file.created_at + HOUR.seconds);
    const upload = await stage.client.uploads.create(asked(1, { expires_after: HOUR }));
    const only = await part(stage, upload, Buffer.from("x"));
    const whole = await stage.client.uploads.complete(upload.id, { part_ids: [only.id] });
    assert.equal(whole.file.expires_at, whole.file.created_at + HOUR.seconds);
  },

  // This client has no call that cuts a file up.
  "uploads.chunked": async (stage) => {
    const upload = await inParts(stage);
    assert.equal(upload.status, "completed");
    const content = await bytesOf(await stage.client.files.content(upload.file.id));
    assert.ok(content.equals(fs.readFileSync(stage.told.rows.chat)));
  },

  "uploads.md5_mismatch": async (stage) => {
    const error = await refused(OpenAI.BadRequestError, inParts(stage, "0".repeat(32)));
    assert.equal(error.param, "md5");
  },

  "uploads.cancel": async (stage) => {
    const upload = await stage.client.uploads.create(asked(1));
    assert.equal((await stage.client.uploads.cancel(upload.id)).status, "cancelled");
    await refused(OpenAI.BadRequestError, part(stage, upload, Buffer.from("x")));
  },
};
