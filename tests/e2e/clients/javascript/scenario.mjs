// The compatibility list, item by item, with the stock JavaScript client.
//
//   node scenario.mjs FOLDER_WITH_NODE_MODULES < case.json
//
// The same items and the same case as python/scenario.py; prints a line of JSON an item.

import assert from "node:assert/strict";
import fs from "node:fs";
import { Case } from "./case.mjs";
import failures from "./failures.mjs";
import files from "./files.mjs";
import following from "./following.mjs";
import graders from "./graders.mjs";
import jobs from "./jobs.mjs";
import webhooks from "./webhooks.mjs";

const ITEMS = { ...files, ...jobs, ...following, ...graders, ...failures, ...webhooks };
const told = JSON.parse(fs.readFileSync(0, "utf8"));
const stage = new Case(told);

for (const [item, check] of Object.entries(ITEMS)) {
  const call = told.absent[item];
  try {
    if (call) {
      assert.equal(found(stage.client, call), undefined, `${call} is there; take it off the table`);
    } else {
      await check(stage);
    }
    say({ item, ok: true, detail: call ? `this version has no ${call}` : null });
  } catch (error) {
    say({ item, ok: false, detail: where(error) });
  }
}

function found(client, call) {
  return call.split(".").reduce((at, name) => at?.[name], client);
}

function where(error) {
  const line = error.stack?.split("\n").find((frame) => frame.includes("/clients/javascript/"));
  return `${error.name}: ${error.message} [${line?.trim()}]`;
}

function say(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}
