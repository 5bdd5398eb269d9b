// The tip: what happens under the pointer.

function eventUnder() {
  // The event under the pointer, or null where a pixel holds more than one.
  const { row, x } = view.pointer;
  const cycle = Math.min(Math.floor(cycleAt(row.canvas, x)), run.cycles - 1);
  const event = row.lane.event(cycle);
  const perPixel = (view.end - view.start) / row.canvas.clientWidth;
  return { ...event, cycle, wide: event.end - event.start >= WIDE * perPixel };
}

function showTip() {
  const { row, x, y } = view.pointer;
  const event = eventUnder();
  const tip = byId("tip");
  tip.replaceChildren(event.wide ? eventTip(row, event) : sharesTip(row));
  tip.hidden = false;
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  tip.style.left = `${x + 18 + width > innerWidth ? Math.max(x - width - 12, 4) : x + 18}px`;
  tip.style.top = `${Math.min(y + 16, innerHeight - height - 6)}px`;
  const cursor = byId("cursor");
  const lanes = byId("lanes").getBoundingClientRect();
  cursor.hidden = false;
  cursor.style.cssText = `left:${x}px;top:${lanes.top}px;height:${lanes.height}px`;
  markSite(places, event.wide ? run.activities[event.activity][4] : 0);
}

function hideTip() {
  view.pointer = null;
  byId("tip").hidden = byId("cursor").hidden = true;
  markSite(places, 0);
}

function eventTip(row, event) {
  const [cause, tile, kind, engine, site] = run.activities[event.activity];
  const [operator, command] = run.site(site);
  const cycles = event.end - event.start;
  const lines = [["cycles", `${count(event.start)} to ${count(event.end)}`]];
  lines.push(["length", `${count(cycles)} cycles${clockText(cycles)}`]);
  if (row.lane.kind !== "engine") lines.push(...amountLines(row, event));
  if (tile) lines.push(["waits for", `tile ${run.tiles[tile]} ${run.kinds[kind]}, held by ${run.holders[engine]}`]);
  if (operator) lines.push(["operator", operator], ["command", command]);
  const what = swatch(element("b"), run.causes[cause]);
  if (!WORK.includes(run.causes[cause].name)) what.prepend("stalled, root cause: ");
  return tipTable(row.lane.name, what, lines);
}

function amountLines(row, { start, end }) {
  const { lane } = row;
  const amount = lane.amount(start, end);
  const mean = amount / (end - start);
  if (lane.kind === "tile") return [["holds", `${bytesText(mean)} (at most ${bytesText(lane.limit)})`]];
  const lines = [["served", `${count(amount)} cycles, ${shareText(mean)} of the limit`]];
  const limit = run.limits[lane.name];
  if (limit) lines.push(["limit", rateText(limit)]);
  return lines;
}

function rateText(bytesPerCycle) {
  const text = `${Number(bytesPerCycle.toPrecision(4))} B per cycle`;
  return run.clock_hz ? `${text} = ${Number(((bytesPerCycle * run.clock_hz) / 1e9).toPrecision(4))} GB/s` : text;
}

function sharesTip(row) {
  // A pixel that holds several events: the shares of its cycles.
  const perPixel = (view.end - view.start) / row.canvas.clientWidth;
  const left = row.canvas.getBoundingClientRect().left;
  const start = Math.max(view.start + Math.floor(view.pointer.x - left) * perPixel, 0);
  const end = Math.min(start + perPixel, run.cycles);
  const sums = row.lane.sums(start, end);
  const lines = [["this pixel", `cycles ${count(start)} to ${count(end)}`]];
  if (row.lane.kind !== "engine") lines.push(...amountLines(row, { start, end }));
  run.causes
    .map((cause, at) => [sums[at], cause])
    .filter(([cycles]) => cycles > 0)
    .sort((a, b) => b[0] - a[0])
    .forEach(([cycles, cause]) => {
      lines.push([swatch(element("span"), cause), shareText(cycles / (end - start))]);
    });
  return tipTable(row.lane.name, element("span", "", "several events; zoom in"), lines);
}

function tipTable(name, what, lines) {
  const table = element("table");
  const head = table.insertRow();
  head.append(element("th", "", name), element("td"));
  head.lastChild.append(what);
  for (const [key, value] of lines) {
    const row = table.insertRow();
    row.append(element("th"), element("td", "", value));
    row.firstChild.append(key);
  }
  return table;
}
