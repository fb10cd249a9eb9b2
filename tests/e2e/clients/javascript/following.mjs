// What a job tells and leaves: events, checkpoints, weights, a model.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { all } from "./case.mjs";

export default {
  "events.order": async ({ owner, trained }) => {
    const { data } = await owner.fineTuning.jobs.listEvents(trained, { limit: 1000 });
    assert.equal(data[0].message, "The job has successfully completed");
    assert.equal(data.at(-1).message, `Created fine-tuning job: ${trained}`);
    const steps = data.filter((event) => event.data.train_loss).map((event) => event.data.step);
    assert.ok(steps.length > 0);
    assert.deepEqual(steps, steps.toSorted((one, other) => other - one));
  },

  "events.pages": async ({ owner, trained }) => {
    const { jobs } = owner.fineTuning;
    const whole = (await jobs.listEvents(trained, { limit: 1000 })).data.map(({ id }) => id);
    const paged = await all(jobs.listEvents(trained, { limit: 2 }));
    assert.deepEqual(paged.map(({ id }) => id), whole);
  },

  "checkpoints.list": async ({ owner, trained, told }) => {
    const job = await owner.fineTuning.jobs.retrieve(trained);
    const found = await all(owner.fineTuning.jobs.checkpoints.list(trained, { limit: 1 }));
    assert.deepEqual(found.map((point) => point.step_number), told.trained.steps);
    for (const point of found) {
      const name = `${job.fine_tuned_model}:ckpt-step-${point.step_number}`;
      assert.equal(point.fine_tuned_model_checkpoint, name);
      assert.ok(point.metrics.full_valid_loss > 0);
    }
  },

  "checkpoints.download": async ({ owner, trained }) => {
    const { data } = await owner.fineTuning.jobs.checkpoints.list(trained, { limit: 1 });
    assert.ok(data[0].files.some((file) => file.kind === "weights"));
    for (const file of data[0].files) {
      const content = Buffer.from(await (await owner.files.content(file.id)).arrayBuffer());
      assert.equal(createHash("sha256").update(content).digest("hex"), file.sha256);
    }
  },

  "results.csv": async ({ owner, trained, told }) => {
    const { result_files: files } = await owner.fineTuning.jobs.retrieve(trained);
    const text = await (await owner.files.content(files[0])).text();
    const [head, ...lines] = text.trim().split(/\r?\n/);
    assert.ok(head.startsWith("step,train_loss,"));
    const withLoss = lines.map((line) => line.split(",")).filter(([, loss]) => loss);
    assert.equal(withLoss.length, told.trained.steps[0]);
  },

  "models.slashes": async ({ owner, trained }) => {
    const job = await owner.fineTuning.jobs.retrieve(trained);
    const listed = (await all(owner.models.list())).map((model) => model.id);
    for (const name of ["org/toy", job.fine_tuned_model]) {
      assert.equal((await owner.models.retrieve(name)).id, name);
      assert.ok(listed.includes(name));
    }
  },
};
