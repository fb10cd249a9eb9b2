// Jobs: asked for in every way, listed, and stopped from every state.

import assert from "node:assert/strict";
import { OpenAI, all, refused } from "./case.mjs";

const GRADER = {
  type: "string_check",
  name: "exact",
  operation: "eq",
  input: "{{ sample.output_text }}",
  reference: "{{ item.letter }}",
};
const METHODS = {
  supervised: { hyperparameters: { n_epochs: 2, batch_size: "auto" } },
  dpo: { hyperparameters: { n_epochs: 2, beta: 0.2 } },
  reinforcement: { hyperparameters: { n_epochs: 2 }, grader: GRADER },
};

function created(type, shape) {
  return async (stage) => {
    const method = { type, [type]: METHODS[type] };
    const job = await stage.create({ shape, method, suffix: "e2e", seed: 7 });
    assert.deepEqual([job.object, job.status, job.seed], ["fine_tuning.job", "queued", 7]);
    assert.equal(job.training_file, await stage.file(shape));
    assert.equal(job.error, null);
    assert.equal(job.method[type].hyperparameters.n_epochs, 2);
    assert.equal((await stage.client.fineTuning.jobs.retrieve(job.id)).id, job.id);
  };
}

function wished(wish) {
  return async (stage) => {
    const { jobs } = stage.client.fineTuning;
    for (const { job, from, then } of stage.told.wishes.filter((told) => told.wish === wish)) {
      if (then === "refused") {
        const error = await refused(OpenAI.BadRequestError, jobs[wish](job));
        assert.equal(error.code, "invalid_job_state");
        continue;
      }
      for (let again = 0; again < 2; again += 1) {
        assert.equal((await jobs[wish](job)).status, then, `from ${from}`);
      }
      assert.equal((await jobs.retrieve(job)).status, then);
    }
  };
}

export default {
  "create.supervised": created("supervised", "chat"),
  "create.dpo": created("dpo", "pairs"),
  "create.reinforcement": created("reinforcement", "prompts"),

  "create.hyperparameters": async (stage) => {
    const job = await stage.create({ hyperparameters: { n_epochs: 3, batch_size: 2 } });
    assert.deepEqual([job.hyperparameters.n_epochs, job.hyperparameters.batch_size], [3, 2]);
  },

  "create.extra_body": async (stage) => {
    const job = await stage.create({ trainer: { context_length: 64 } });
    assert.equal(job.trainer.context_length, 64);
  },

  "create.unknown_key": async (stage) => {
    const trainer = { optimizer: { kind: "apollo", rnk: 4 } };
    const error = await refused(OpenAI.BadRequestError, stage.create({ trainer }));
    assert.equal(error.param, "trainer.optimizer.rnk");
  },

  "list.pages_by_metadata": async (stage) => {
    const made = [];
    for (let number = 0; number < 3; number += 1) {
      made.push((await stage.create({ metadata: { shelf: "a" } })).id);
    }
    await stage.create({ metadata: { shelf: "b" } });
    const asked = { limit: 1, metadata: { shelf: "a" } };
    const found = await all(stage.client.fineTuning.jobs.list(asked));
    assert.deepEqual(found.map((job) => job.id), made.reverse());
  },

  "jobs.cancel": wished("cancel"),
  "jobs.pause": wished("pause"),
  "jobs.resume": wished("resume"),
};
