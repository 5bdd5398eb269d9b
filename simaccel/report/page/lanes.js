// How lanes look: a canvas each, drawn anew for every window.
//
// From left to right: a row wide enough to see is a rectangle; where rows are narrower, a column
// of a pixel shows the shares of what happens in its cycles, stacked. So a frame never looks at
// more than one row a pixel.

const WIDE = 1.5; // pixels from which a row is drawn by itself
const LABEL = 46; // pixels from which a row carries a text
const LEVEL_COLOURS = { channel: "#0072b2", tile: "#a0679f" };

function pieces(lane, start, end, width, visit) {
  // Cut a window into wide rows, visit(from, to, row), and columns, visit(from, to, null).
  const scale = (end - start) / width;
  for (let cycle = start; cycle < end; ) {
    const row = lane.row(cycle);
    if (row.end <= cycle) return; // the lane of a killed run is shorter than others
    if (row.end >= end || row.end - cycle >= WIDE * scale) {
      visit(cycle, Math.min(row.end, end), row);
      cycle = row.end;
    } else {
      const pixel = Math.floor((cycle - start) / scale + 1e-6) + 1;
      const next = Math.min(end, Math.max(start + pixel * scale, row.end));
      visit(cycle, next, null);
      cycle = next;
    }
  }
}

function span(box, start, scale, from, to) {
  // Left edge and width of a stretch, on pixels of the screen so that neighbours meet.
  const ratio = window.devicePixelRatio || 1;
  const [left, right] = [from, to].map((cycle) => Math.round((cycle - start) * scale * ratio) / ratio);
  return [box.x + left, right - left];
}

function fitCanvas(canvas) {
  // Give a canvas the pixels of the screen; returns its context and its size in CSS pixels.
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const [inner, outer] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== inner || canvas.height !== outer) [canvas.width, canvas.height] = [inner, outer];
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

function drawActivities(context, lane, run, start, end, box, labels) {
  // Engines and channels: what happens, by colour; busy stands at the bottom of a column.
  const scale = box.width / (end - start);
  const idle = run.stack.at(-1);
  const rects = run.causes.map(() => []);
  const texts = [];
  let last = -1;
  pieces(lane, start, end, box.width, (from, to, row) => {
    const [x, width] = span(box, start, scale, from, to);
    if (row) {
      const cause = lane.causeOf[row.activity];
      const edge = width > 4 && row.activity !== last && row.start >= start && cause !== idle ? 1 : 0;
      rects[cause].push(x + edge, box.y, width - edge, box.height);
      if (labels && width > LABEL) texts.push([x, width, row.activity, cause]);
      last = row.activity;
      return;
    }
    const sums = lane.sums(from, to);
    let y = box.y + box.height;
    for (const cause of run.stack) {
      const height = (sums[cause] / (to - from)) * box.height;
      if (height <= 0) continue;
      y -= height;
      rects[cause].push(x, y, width, height);
    }
    last = -1;
  });
  rects.forEach((list, cause) => {
    context.fillStyle = run.causes[cause].colour;
    for (let at = 0; at < list.length; at += 4) {
      context.fillRect(list[at], list[at + 1], list[at + 2], list[at + 3]);
    }
  });
  for (const [x, width, activity, cause] of texts) label(context, run, x, width, activity, cause, box);
}

function label(context, run, x, width, activity, cause, box) {
  const text = run.shortText(activity);
  context.save();
  context.beginPath();
  context.rect(x, box.y, width - 4, box.height);
  context.clip();
  context.fillStyle = run.causes[cause].ink;
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.fillText(text, x + 5, box.y + box.height / 2 + 0.5);
  context.restore();
}

function drawLevel(context, lane, start, end, box, line) {
  // Bandwidth and occupancy: a filled step line; the top of the lane is the limit.
  const scale = box.width / (end - start);
  context.fillStyle = line;
  context.fillRect(box.x, box.y, box.width, 1);
  context.fillRect(box.x, box.y + box.height - 1, box.width, 1);
  context.fillStyle = LEVEL_COLOURS[lane.kind];
  pieces(lane, start, end, box.width, (from, to, row) => {
    const [low, high] = row ? [row.start, row.end] : [from, to];
    const share = lane.amount(low, high) / (high - low) / lane.limit;
    if (share <= 0) return;
    const height = Math.max(share * box.height, 1);
    const [x, width] = span(box, start, scale, from, to);
    context.fillRect(x, box.y + box.height - height, width, height);
  });
}

function drawAxis(context, size, start, end, run, ink) {
  // Ticks at round cycles, with the time below.
  const [steps, scale] = [[1, 2, 5, 10], size.width / (end - start)];
  const least = Math.max((150 / size.width) * (end - start), 1);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = Math.max(1, steps.find((one) => one * power >= least) * power);
  context.fillStyle = ink;
  context.font = "11px system-ui, sans-serif";
  for (let cycle = Math.ceil(start / step) * step; cycle <= end; cycle += step) {
    const x = (cycle - start) * scale;
    context.fillRect(x, size.height - 5, 1, 5);
    context.fillRect(x, 0, 1, 3);
    context.textAlign = x < 30 ? "left" : x > size.width - 40 ? "right" : "center";
    context.fillText(cycle.toLocaleString("en"), x, 13);
    if (run.clock_hz) context.fillText(timeText(cycle / run.clock_hz, step / run.clock_hz), x, 26);
  }
}

function timeText(seconds, step) {
  // With four digits, or as many as tell neighbours a step apart from each other.
  const units = [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]];
  const [size, unit] = units.find(([one]) => seconds >= one) || units[3];
  const digits = step ? Math.ceil(Math.log10(Math.max(seconds / step, 1))) + 1 : 4;
  return `${Number((seconds / size).toPrecision(Math.min(Math.max(digits, 4), 15)))} ${unit}`;
}

function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  for (; bytes >= 1024 && at < units.length - 1; at += 1) bytes /= 1024;
  return `${Number(bytes.toPrecision(4))} ${units[at]}`;
}

function shareText(share) {
  return `${(100 * share).toFixed(1)}%`;
}
