// What the test has put ready for the client, and how the items use it.

import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

export const OpenAI = createRequire(path.join(process.argv[2], "x.js"))("openai");
const POLL_MS = 100;
const LIMIT_MS = 120_000;

export class Case {
  constructor(told) {
    this.told = told;
    this.trained = told.trained.job;
    this.client = this.open();
    this.owner = this.open({ apiKey: told.trained.key });
    this.sent = new Map();
  }

  open(options = {}) {
    return new OpenAI({ apiKey: this.told.key, baseURL: this.told.url, maxRetries: 0, ...options });
  }

  upload(shape) {
    const file = fs.createReadStream(this.told.rows[shape]);
    return this.client.files.create({ file, purpose: "fine-tune" });
  }

  async checked(id) {
    return this.client.files.waitForProcessing(id, { pollInterval: POLL_MS, maxWait: LIMIT_MS });
  }

  // The id of a file of such rows, uploaded and checked.
  async file(shape) {
    if (!this.sent.has(shape)) {
      const { id } = await this.upload(shape);
      assert.equal((await this.checked(id)).status, "processed");
      this.sent.set(shape, id);
    }
    return this.sent.get(shape);
  }

  async create({ shape = "chat", client = this.client, options = undefined, ...asked } = {}) {
    const body = { model: "org/toy", training_file: await this.file(shape), ...asked };
    return client.fineTuning.jobs.create(body, options);
  }
}

// The error of this very class that the promise must end in.
export async function refused(kind, promise) {
  let given;
  try {
    given = await promise;
  } catch (error) {
    assert.equal(error.constructor, kind, String(error));
    return error;
  }
  return assert.fail(`${kind.name} was expected, but there is ${JSON.stringify(given)}`);
}

export async function all(page) {
  const found = [];
  for await (const one of page) found.push(one);
  return found;
}
