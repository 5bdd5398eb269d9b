// Runs the trace processor of the Perfetto UI (engine_bundle.js and its WebAssembly) outside of a
// browser: node perfetto_ui.cjs FOLDER_OF_THE_UI REQUESTS REPLIES. Both files hold TraceProcessorRpcStream
// messages, as the UI sends and gets them.
"use strict";

const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [folder, requests, replies] = process.argv.slice(2);
const exit = process.exit.bind(process);
const read = (name) => fs.readFileSync(path.join(folder, path.basename(name)));
const START_MS = 500; // the engine compiles its WebAssembly in promises, which are over by then

// What the bundle needs of a web worker. Without `process` it takes node for a browser.
globalThis.self = { location: { href: "http://localhost/engine_bundle.js" } };
globalThis.WorkerGlobalScope = function () {};
globalThis.importScripts = () => {};
globalThis.XMLHttpRequest = class {
  open(_method, name) {
    this.name = name;
  }
  send() {
    const { buffer, byteOffset, length } = read(this.name);
    this.status = 200;
    this.response = buffer.slice(byteOffset, byteOffset + length);
  }
};
delete globalThis.process;

const received = [];
const port = { postMessage: (bytes) => received.push(Buffer.from(bytes)) };
vm.runInThisContext(read("engine_bundle.js").toString());
self.onmessage({ data: port });
setTimeout(() => {
  port.onmessage({ data: new Uint8Array(fs.readFileSync(requests)) });
  fs.writeFileSync(replies, Buffer.concat(received));
  exit(0);
}, START_MS);
