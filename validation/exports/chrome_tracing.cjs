// Imports a file as chrome://tracing does: node chrome_tracing.cjs TRACE_VIEWER_FULL.html TRACE RESULT.
// The page holds all modules of the viewer in one script. Those that draw need a browser and fail
// here; those that import don't: catapult runs them without a page in its own tests.
"use strict";

const fs = require("fs");
const vm = require("vm");

const [page, trace, result] = process.argv.slice(2);
const scripts = fs.readFileSync(page, "utf8").matchAll(/<script[^>]*>([\s\S]*?)<\/script>/g);
const longest = [...scripts].map((one) => one[1]).sort((a, b) => b.length - a.length)[0];
globalThis.global = globalThis;
for (const module of longest.split("'use strict';")) {
  try {
    vm.runInThisContext(`'use strict';${module}`);
  } catch {
    continue;
  }
  globalThis.oboe ??= globalThis.window?.oboe; // the importer's JSON reader
}

const model = new tr.Model();
new tr.importer.Import(model).importTraces([fs.readFileSync(trace, "utf8")]);
const us = (ms) => Math.round(ms * 1e6) / 1e3;
const place = (slice) => [slice.parentContainer.name, us(slice.start)];
const threads = Object.values(model.processes).flatMap((one) => Object.values(one.threads));
const counters = Object.values(model.processes).flatMap((one) => Object.values(one.counters));
const found = {
  warnings: model.importWarnings.map(String),
  slices: threads.flatMap((thread) =>
    thread.sliceGroup.slices.map((one) => ({
      lane: thread.name,
      start: us(one.start),
      cycles: us(one.duration),
      side_by_side: one.isTopLevel,
      args: one.args,
    })),
  ),
  arrows: model.flowEvents.map((one) => [...place(one.startSlice), ...place(one.endSlice)]),
  counters: Object.fromEntries(
    counters.flatMap((one) =>
      one.series.map((series) => [
        `${one.name} ${series.name}`,
        series.samples.map((sample) => [us(sample.timestamp), sample.value]),
      ]),
    ),
  ),
};
fs.writeFileSync(result, JSON.stringify(found));
