// The page: one window of cycles, shown by all lanes, moved by wheel, drag, keys and clicks.

const WORK = ["busy", "idle"]; // these are no stalls
const LEAST = 8; // cycles of the smallest window
const FOLDED = 8; // more lanes of tiles are folded until they are asked for
const byId = (id) => document.getElementById(id);
const count = (number) => Math.round(number).toLocaleString("en");

function loadRun() {
  const run = JSON.parse(byId("data").textContent);
  run.lanes = run.lanes.map((plain) => new Lane(plain, run));
  const isDark = (colour) => {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    return 0.3 * r + 0.59 * g + 0.11 * b < 120;
  };
  for (const cause of run.causes) cause.ink = isDark(cause.colour) ? "#ffffff" : "#111111";
  run.stack = run.causes.map((_, at) => at).filter((at) => run.causes[at].name !== "idle");
  run.stack.push(run.causes.findIndex((cause) => cause.name === "idle"));
  run.site = (number) => run.sites[number] || ["", ""];
  run.shortText = (activity) => {
    const [cause, tile, , , site] = run.activities[activity];
    const { name, label } = run.causes[cause];
    if (name === "busy") return run.site(site)[1].split(/ over | queue | into /)[0];
    if (name === "idle") return "";
    return label + (tile ? `: ${run.tiles[tile]}` : "");
  };
  return run;
}

const run = loadRun();
const view = { start: 0, end: run.cycles, before: [], pending: false, pointer: null };
const marks = []; // operators above the axis: {start, end, mark}
const rows = []; // lanes as shown: {lane, level, canvas, small, group}

// The window

function setWindow(start, end, remember = true) {
  const length = Math.min(Math.max(end - start, Math.min(LEAST, run.cycles)), run.cycles);
  const first = Math.min(Math.max(start - (length - (end - start)) / 2, 0), run.cycles - length);
  if (first === view.start && first + length === view.end) return;
  if (remember) view.before.push([view.start, view.end]);
  [view.start, view.end] = [first, first + length];
  redraw();
}

function zoom(factor, at = (view.start + view.end) / 2) {
  const length = Math.max((view.end - view.start) * factor, Math.min(LEAST, run.cycles));
  const share = (at - view.start) / (view.end - view.start);
  const start = Math.min(Math.max(at - share * length, 0), Math.max(run.cycles - length, 0));
  setWindow(start, Math.min(start + length, run.cycles), false);
}

function move(cycles) {
  const length = view.end - view.start;
  const start = Math.min(Math.max(view.start + cycles, 0), run.cycles - length);
  setWindow(start, start + length, false);
}

function back() {
  const before = view.before.pop();
  if (before) setWindow(...before, false);
}

function zoomTo(start, end, margin) {
  const more = (end - start) * margin;
  setWindow(Math.max(start - more, 0), Math.min(end + more, run.cycles));
}

// Drawing

function redraw() {
  if (view.pending) return;
  view.pending = true;
  requestAnimationFrame(() => {
    view.pending = false;
    draw();
  });
}

function takeColours() {
  // What depends on light or dark; idle, the last of the stack, is a background.
  const style = getComputedStyle(document.documentElement);
  run.causes[run.stack.at(-1)].colour = style.getPropertyValue("--idle");
  [run.line, run.dim] = [style.getPropertyValue("--line"), style.getPropertyValue("--dim")];
}

function draw(all = false) {
  const [start, end] = [view.start, view.end];
  for (const row of rows) {
    if (!all && !inSight(row.canvas)) continue;
    const { context, width, height } = fitCanvas(row.canvas);
    const box = { x: 0, y: 0, width, height };
    if (row.level) drawLevel(context, row.lane, start, end, box, run.line);
    else drawActivities(context, row.lane, run, start, end, box, true);
    row.small.textContent = windowText(row);
  }
  const axis = fitCanvas(byId("axis"));
  drawAxis(axis.context, axis, start, end, run, run.dim);
  placeMarks();
  const marker = byId("marker").style;
  marker.left = `${(100 * start) / run.cycles}%`;
  marker.width = `${(100 * (end - start)) / run.cycles}%`;
  if (document.activeElement !== byId("from")) byId("from").value = count(Math.floor(start));
  if (document.activeElement !== byId("to")) byId("to").value = count(Math.ceil(end));
  byId("link").href = `#cycles=${Math.floor(start)}-${Math.ceil(end)}`;
  byId("span").textContent = `= ${count(end - start)} cycles${clockText(end - start)}`;
  if (view.pointer) showTip();
}

function inSight(canvas) {
  const [lanes, box] = [byId("lanes"), canvas].map((one) => one.getBoundingClientRect());
  return box.height > 0 && box.bottom > lanes.top && box.top < lanes.bottom;
}

function drawOverview() {
  takeColours();
  const { context, width, height } = fitCanvas(byId("overview"));
  const engines = run.lanes.filter((lane) => lane.kind === "engine");
  engines.forEach((lane, at) => {
    const step = height / engines.length;
    const box = { x: 0, y: at * step, width, height: step - 1 };
    drawActivities(context, lane, run, 0, run.cycles, box, false);
  });
}

function windowText(row) {
  // What a lane's label says about the window.
  const { lane, level } = row;
  const cycles = view.end - view.start;
  if (!level) return shareText(lane.sums(view.start, view.end)[0] / cycles);
  const mean = lane.amount(view.start, view.end) / cycles;
  return lane.kind === "tile" ? bytesText(Math.round(mean)) : shareText(mean);
}

function clockText(cycles) {
  return run.clock_hz ? ` = ${timeText(cycles / run.clock_hz)}` : "";
}

// What the page is made of

function makeHead() {
  byId("title").textContent = run.title;
  const facts = [`${count(run.cycles)} cycles${clockText(run.cycles)}`];
  if (run.utilisation) facts.push(`utilisation ${shareText(run.utilisation)}`);
  if (run.energy) facts.push(`energy ${run.energy}`);
  if (run.dram) facts.push(run.dram);
  if (run.partial) facts.push("PARTIAL: the run was killed after these cycles");
  facts.push(`${count(run.stored_rows)} stored rows`, `simaccel ${run.version}`);
  byId("facts").textContent = facts.join(" \u00b7 ");
  for (const text of run.said || []) byId("said").append(element("li", "", text));
  byId("said").hidden = !(run.said || []).length;
  const used = new Set(run.activities.map(([cause]) => cause));
  const stalls = run.causes.filter((cause, at) => used.has(at) && !WORK.includes(cause.name));
  for (const name of WORK) {
    byId("legend").append(swatch(element("li"), run.causes.find((cause) => cause.name === name)));
  }
  if (stalls.length) byId("legend").append(element("li", "sort", "stalled, by root cause:"));
  for (const cause of stalls) byId("legend").append(swatch(element("li"), cause));
}

function swatch(parent, cause) {
  const square = element("span", "swatch");
  square.style.background = cause.name === "idle" ? "var(--idle)" : cause.colour;
  parent.append(square, cause.label);
  return parent;
}

function makeOperators() {
  // Where each operator lies: those that run once, one after the other.
  const once = run.loops.filter((place) => place.kind === "operator" && place.executions === 1);
  const there = once.filter((place) => place.window);
  if (there.length < 2) return;
  byId("operators-strip").hidden = false;
  for (const place of there) {
    const [start, end] = place.window;
    const name = place.text.replace("operator ", "").replace(/ on cores .*/, "");
    const mark = element("button", "mark", name);
    mark.title = `${name}: cycles ${count(start)} to ${count(end)}`;
    mark.onclick = () => zoomTo(start, end, 0);
    byId("operators").append(mark);
    marks.push({ start, end, mark });
  }
}

function placeMarks() {
  // Put the operators where they lie in the window.
  const length = view.end - view.start;
  for (const { start, end, mark } of marks) {
    const [from, to] = [Math.max(start, view.start), Math.min(end, view.end)];
    mark.hidden = from >= to;
    mark.style.left = `${(100 * (from - view.start)) / length}%`;
    mark.style.width = `${(100 * (to - from)) / length}%`;
  }
}

function linked() {
  // A window in the address, as the link writes it: #cycles=1000-2000.
  const found = /^#cycles=(\d+)-(\d+)$/.exec(location.hash);
  if (found) setWindow(Number(found[1]), Number(found[2]), false);
}

function makeLanes() {
  const inPes = run.lanes.some((lane) => lane.name.startsWith("tile pe."));
  const memories = inPes ? "the buffer, those of pe. in each PE" : "the buffer";
  const groups = [
    ["engines", "engine", false, 28],
    ["channels: requests waiting or served", "channel", false, 15],
    ["bandwidth: share of each channel's limit that is used", "channel", true, 32],
    [`tiles: bytes held in ${memories}; the top is the most`, "tile", true, 24],
  ];
  for (const [title, kind, level, height] of groups) {
    const lanes = run.lanes.filter((lane) => lane.kind === kind);
    if (lanes.length === 0) continue;
    const group = element("div");
    const button = element("button", "group", title);
    button.setAttribute("aria-expanded", "true");
    button.onclick = () => {
      group.hidden = !group.hidden;
      button.setAttribute("aria-expanded", String(!group.hidden));
      redraw();
    };
    byId("lanes").append(button, group);
    for (const lane of lanes) group.append(makeLane(lane, level, height, group));
    if (kind === "tile" && lanes.length > FOLDED) button.click();
  }
}

function makeLane(lane, level, height, group) {
  const box = element("div", "lane");
  const name = element("span", "name", lane.name);
  const small = element("small");
  name.title = lane.name;
  name.prepend(small);
  const track = element("div", "track");
  const canvas = element("canvas");
  canvas.style.height = `${height}px`;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", laneText(lane, level));
  canvas.dataset.lane = lane.name;
  canvas.dataset.level = level;
  track.append(canvas);
  box.append(name, track);
  const row = { lane, level, canvas, small, group };
  rows.push(row);
  listen(row);
  return box;
}

function laneText(lane, level) {
  // For those who can't see the canvas: the whole run in a sentence.
  const sums = lane.sums(0, run.cycles);
  if (level && lane.kind === "tile") return `${lane.name}: at most ${bytesText(lane.limit)}`;
  if (level) return `${lane.name}: ${shareText(sums.at(-1) / run.cycles)} of its limit`;
  const shares = run.causes
    .map((cause, at) => [sums[at] / run.cycles, cause.label])
    .filter(([share]) => share > 0)
    .sort((a, b) => b[0] - a[0]);
  return `${lane.name}: ${shares.map(([share, name]) => `${name} ${shareText(share)}`).join(", ")}`;
}

// Pointer

function cycleAt(canvas, clientX) {
  const box = canvas.getBoundingClientRect();
  const share = Math.min(Math.max((clientX - box.left) / box.width, 0), 1);
  return view.start + share * (view.end - view.start);
}

function listen(row) {
  const { canvas } = row;
  canvas.addEventListener("wheel", (event) => wheel(event, canvas), { passive: false });
  canvas.addEventListener("pointerdown", (event) => grab(event, canvas));
  canvas.addEventListener("pointermove", (event) => {
    view.pointer = { row, x: event.clientX, y: event.clientY };
    showTip();
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("dblclick", () => fitEvent());
}

function wheel(event, canvas) {
  event.preventDefault();
  const lines = event.deltaMode === 1 ? 16 : 1;
  const perPixel = (view.end - view.start) / canvas.clientWidth;
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    move((event.deltaX || event.deltaY) * lines * perPixel);
  } else {
    zoom(Math.exp(event.deltaY * lines * 0.002), cycleAt(canvas, event.clientX));
  }
}

function grab(event, canvas) {
  // Drag: the cycle under the pointer stays under it. With shift: what is dragged over is shown.
  if (event.button !== 0) return;
  canvas.setPointerCapture(event.pointerId);
  canvas.classList.add("moving");
  const from = event.clientX;
  let last = from;
  canvas.onpointermove = (moved) => {
    if (event.shiftKey) showSelection(from, moved.clientX);
    else move(((last - moved.clientX) * (view.end - view.start)) / canvas.clientWidth);
    last = moved.clientX;
  };
  canvas.onpointerup = canvas.onpointercancel = () => {
    canvas.onpointermove = canvas.onpointerup = canvas.onpointercancel = null;
    canvas.classList.remove("moving");
    byId("selection").hidden = true;
    if (event.shiftKey && last !== from) {
      const [start, end] = [from, last].sort((a, b) => a - b).map((x) => cycleAt(canvas, x));
      setWindow(start, end);
    }
  };
}

function showSelection(from, to) {
  const lanes = byId("lanes").getBoundingClientRect();
  const [left, width] = [Math.min(from, to), Math.abs(to - from)];
  byId("selection").hidden = false;
  byId("selection").style.cssText =
    `left:${left}px;width:${width}px;top:${lanes.top}px;height:${lanes.height}px`;
}

function fitEvent() {
  if (!view.pointer) return;
  const event = eventUnder();
  zoomTo(event.start, event.end, 0.1);
}

// Controls

function readInputs() {
  const [from, to] = ["from", "to"].map((id) => Number(byId(id).value.replace(/[\s,_]/g, "")));
  const right = Number.isFinite(from) && Number.isFinite(to) && from >= 0 && from < to && to <= run.cycles;
  const problem = right ? "" : `allowed: cycles from 0 up to ${count(run.cycles)}, the second one larger`;
  byId("to").setCustomValidity(problem);
  if (right) setWindow(from, to);
  else byId("to").reportValidity();
}

const KEYS = {
  "+": () => zoom(0.5),
  "=": () => zoom(0.5),
  "-": () => zoom(2),
  ArrowLeft: () => move(-0.2 * (view.end - view.start)),
  ArrowRight: () => move(0.2 * (view.end - view.start)),
  0: () => setWindow(0, run.cycles),
  f: fitEvent,
  Backspace: back,
};

function listenControls() {
  byId("zoom-in").onclick = () => zoom(0.5);
  byId("zoom-out").onclick = () => zoom(2);
  byId("whole").onclick = KEYS[0];
  byId("back").onclick = back;
  for (const id of ["from", "to"]) {
    byId(id).addEventListener("change", readInputs);
    byId(id).addEventListener("keydown", (event) => event.key === "Enter" && event.target.blur());
  }
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLInputElement;
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  const track = byId("overview-track");
  track.addEventListener("pointerdown", (event) => {
    track.setPointerCapture(event.pointerId);
    centre(event);
    track.onpointermove = centre;
    track.onpointerup = () => (track.onpointermove = null);
  });
  byId("lanes").addEventListener("scroll", redraw);
  track.addEventListener("wheel", wheelOverview, { passive: false });
  const redrawAll = () => {
    // strips end where lanes do, beside a scroll bar of any width
    const lanes = byId("lanes");
    byId("timeline").style.setProperty("--bar", `${lanes.offsetWidth - lanes.clientWidth}px`);
    drawOverview();
    draw(); // at once: what is printed waits for no frame
  };
  window.addEventListener("beforeprint", () => draw(true));
  new ResizeObserver(redrawAll).observe(byId("timeline"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
}

function wheelOverview(event) {
  // Zoom around the cycle under the pointer; from outside of the window it is moved there first.
  event.preventDefault();
  const box = byId("overview-track").getBoundingClientRect();
  const cycle = ((event.clientX - box.left) / box.width) * run.cycles;
  if (cycle < view.start || cycle > view.end) move(cycle - (view.start + view.end) / 2);
  const at = Math.min(Math.max(cycle, view.start), view.end);
  zoom(Math.exp(event.deltaY * (event.deltaMode === 1 ? 16 : 1) * 0.002), at);
}

function centre(event) {
  const box = byId("overview-track").getBoundingClientRect();
  const cycle = ((event.clientX - box.left) / box.width) * run.cycles;
  move(cycle - (view.start + view.end) / 2);
}

makeHead();
makeLanes();
makeOperators();
const places = makeLoops(run, byId("loops"), (place) => {
  zoomTo(...place.window, place.kind === "command" ? 0.25 : 0);
});
listenControls();
addEventListener("hashchange", linked);
linked();

// For tests: the window, and what the page knows about a lane.
window.simaccel = {
  window: () => [view.start, view.end],
  show: setWindow,
  event: (name, cycle) => known(name).event(cycle),
  events: (name, start, end, atMost = 1e5) => known(name).events(start, end, atMost),
  sums: (name, start, end) => Array.from(known(name).sums(start, end)),
};

function known(name) {
  return run.lanes.find((lane) => lane.name === name);
}
