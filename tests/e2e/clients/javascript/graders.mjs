// Graders: tried, and what goes wrong told by flags.

import assert from "node:assert/strict";
import { OpenAI, refused } from "./case.mjs";

const TEXTS = { input: "{{ sample.output_text }}", reference: "{{ item.answer }}" };
const EXACT = { type: "string_check", name: "exact", operation: "eq", ...TEXTS };
const CLOSE = {
  type: "text_similarity",
  name: "close",
  evaluation_metric: "fuzzy_match",
  ...TEXTS,
};
const BOTH = {
  type: "multi",
  name: "both",
  graders: { exact: EXACT, close: CLOSE },
  calculate_output: "0.5 * exact + 0.5 * close",
};
const JUDGE = { type: "score_model", name: "judge", model: "org/toy", input: [] };

function python(stage, body) {
  const source = `def grade(sample, item):\n    ${body}\n`;
  return stage.told.sandbox ? [{ type: "python", name: "python", source }] : [];
}

function run(stage, grader, model_sample, item = { answer: "Paris" }) {
  return stage.client.fineTuning.alpha.graders.run({ grader, model_sample, item });
}

function flags(found) {
  return Object.keys(found.metadata.errors).filter((name) => found.metadata.errors[name] === true);
}

export default {
  "graders.validate": async (stage) => {
    const { graders } = stage.client.fineTuning.alpha;
    for (const grader of [EXACT, CLOSE, BOTH, ...python(stage, "return 1.0")]) {
      assert.equal((await graders.validate({ grader })).grader.name, grader.name);
    }
    const wrong = { ...EXACT, operation: "?" };
    await refused(OpenAI.BadRequestError, graders.validate({ grader: wrong }));
  },

  "graders.run": async (stage) => {
    const same = "return float(sample['output_text'] == 'Paris')";
    for (const grader of [EXACT, CLOSE, BOTH, ...python(stage, same)]) {
      const found = await run(stage, grader, "Paris");
      assert.deepEqual([found.reward, flags(found)], [1, []], grader.type);
    }
  },

  "graders.error_flags": async (stage) => {
    const formula = { ...BOTH, calculate_output: "exact / 0" };
    const cases = [
      [EXACT, {}, "invalid_variable_error"],
      [formula, undefined, "formula_parse_error"],
      ...python(stage, "return 1 / 0").map((one) => [one, {}, "python_grader_runtime_error"]),
    ];
    for (const [grader, item, flag] of cases) {
      const found = await run(stage, grader, "x", item);
      assert.deepEqual([found.reward, flags(found)], [0, [flag]]);
    }
  },

  "graders.score_model": async (stage) => {
    const error = await refused(OpenAI.BadRequestError, run(stage, JUDGE, "x"));
    assert.ok(error.param.startsWith("grader"));
  },
};
