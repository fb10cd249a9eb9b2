// Errors as this client's classes, and tries again that make nothing twice.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { OpenAI, refused } from "./case.mjs";

const TIMEOUT_MS = 4000;
const MORE_TRIES = 4;

function madeOnce(how) {
  return async (stage) => {
    const baseURL = stage.told.proxy_url;
    const client = stage.open({ baseURL, maxRetries: MORE_TRIES, timeout: TIMEOUT_MS });
    const suffix = `once-${randomUUID().slice(0, 8)}`;
    const job = await stage.create({ client, suffix, options: { headers: { "x-break": how } } });
    const { data } = await stage.client.fineTuning.jobs.list({ limit: 100 });
    const made = data.filter((one) => one.user_provided_suffix === suffix).map((one) => one.id);
    assert.deepEqual(made, [job.id]);
  };
}

function check(error, status, { code, param } = {}) {
  assert.equal(error.status, status);
  assert.ok(error.requestID.startsWith("req_"));
  for (const key of ["message", "type", "param", "code"]) assert.ok(key in error.error, key);
  if (code) assert.equal(error.code, code);
  if (param) assert.equal(error.param, param);
}

async function smallFile(client) {
  const file = await OpenAI.toFile(Buffer.from("a"), "a.txt");
  return client.files.create({ file, purpose: "user_data" });
}

export default {
  "duplicates.after_500": madeOnce("500"),
  "duplicates.after_time_out": madeOnce("hang"),
  "duplicates.after_cut": madeOnce("cut"),

  "duplicates.idempotency_key": async (stage) => {
    const options = { headers: { "Idempotency-Key": randomUUID() } };
    const first = await stage.create({ suffix: "first", options });
    assert.equal((await stage.create({ suffix: "first", options })).id, first.id);
    const reused = stage.create({ suffix: "second", options });
    const error = await refused(OpenAI.BadRequestError, reused);
    assert.equal(error.code, "idempotency_key_reused");
  },

  "errors.400": async (stage) => {
    const error = await refused(OpenAI.BadRequestError, stage.create({ seed: -1 }));
    check(error, 400, { param: "seed" });
  },

  "errors.401": async (stage) => {
    const stranger = stage.open({ apiKey: "sk-castalia-unknown" });
    const error = await refused(OpenAI.AuthenticationError, stranger.files.list());
    check(error, 401, { code: "invalid_api_key" });
  },

  "errors.403": async (stage) => {
    const reader = stage.open({ apiKey: stage.told.reader });
    const error = await refused(OpenAI.PermissionDeniedError, smallFile(reader));
    check(error, 403, { code: "insufficient_scope" });
  },

  "errors.404": async (stage) => {
    const { jobs } = stage.client.fineTuning;
    const error = await refused(OpenAI.NotFoundError, jobs.retrieve(stage.trained));
    check(error, 404, { code: "not_found" });
    const nobodys = { model: "no/model", training_file: await stage.file("chat") };
    const unknown = await refused(OpenAI.NotFoundError, jobs.create(nobodys));
    check(unknown, 404, { code: "model_not_found", param: "model" });
  },

  "errors.409": async (stage) => {
    const error = await refused(OpenAI.ConflictError, stage.client.get("/refusals/409"));
    check(error, 409, { code: "probe", param: "field" });
  },

  "errors.409_is_final": async (stage) => {
    const client = stage.open({ maxRetries: 2 });
    const name = randomUUID();
    await refused(OpenAI.ConflictError, client.get(`/refusals/409?name=${name}`));
    assert.equal(await client.get(`/refusals/tries/${name}`), 1);
  },

  "errors.429": async (stage) => {
    const full = stage.open({ apiKey: stage.told.full });
    const error = await refused(OpenAI.RateLimitError, smallFile(full));
    check(error, 429, { code: "quota_exceeded", param: "stored_bytes" });
  },

  "errors.500": async (stage) => {
    const { key, job } = stage.told.broken;
    const { jobs } = stage.open({ apiKey: key }).fineTuning;
    const error = await refused(OpenAI.InternalServerError, jobs.retrieve(job));
    check(error, 500, { code: "internal_error" });
  },

  request_id: async (stage) => {
    const file = await stage.upload("chat");
    const again = await stage.client.files.retrieve(file.id);
    assert.ok(file._request_id.startsWith("req_"));
    assert.notEqual(file._request_id, again._request_id);
  },
};
