// The run as a tree, measured without unrolling: the counterpart of simaccel/trace/track.py.
//
// Every node knows its length and its totals. A question about a cycle descends: a sequence finds
// the child by bisection, a repetition divides by its period. So a frame costs pixels times depth,
// however long the run is. Cycles inside a node count from its own first cycle.

const CHECKPOINT = 16; // rows between two stored sums of a leaf

function bisect(starts, cycle) {
  // The last index whose start is not after the cycle; starts[0] is 0.
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle] <= cycle) low = middle;
    else high = middle - 1;
  }
  return low;
}

class Leaf {
  // Rows one after the other. The rate of a row is its amount in a cycle: see Lane.
  constructor(rows, lane) {
    const n = rows.n.length;
    this.lane = lane;
    this.activities = Int32Array.from(rows.a);
    this.starts = new Float64Array(n);
    this.rates = new Float64Array(n);
    let at = 0;
    for (let row = 0; row < n; row += 1) {
      this.starts[row] = at;
      at += rows.n[row];
      this.rates[row] = rows.v ? rows.v[row] / rows.n[row] : lane.heldOf[rows.a[row]];
    }
    this.length = at;
    this.most = this.rates.reduce((most, rate) => Math.max(most, rate), 0);
    this.activity = this.activities.every((one) => one === this.activities[0]) ? this.activities[0] : -1;
    this.sums = [];
    const sum = lane.zero();
    for (let row = 0; row < n; row += 1) {
      if (row % CHECKPOINT === 0) this.sums.push(sum.slice());
      this.addRow(row, this.rowEnd(row) - this.starts[row], sum);
    }
    this.total = sum;
  }

  rowEnd(row) {
    return row + 1 < this.starts.length ? this.starts[row + 1] : this.length;
  }

  addRow(row, cycles, sum) {
    sum[this.lane.causeOf[this.activities[row]]] += cycles;
    sum[sum.length - 1] += cycles * this.rates[row];
  }

  add(cycle, sum) {
    const last = bisect(this.starts, cycle);
    const block = Math.floor(last / CHECKPOINT);
    addTo(sum, this.sums[block], 1);
    for (let row = block * CHECKPOINT; row < last; row += 1) {
      this.addRow(row, this.starts[row + 1] - this.starts[row], sum);
    }
    this.addRow(last, Math.min(cycle, this.length) - this.starts[last], sum);
  }

  row(cycle) {
    const row = bisect(this.starts, cycle);
    return { start: this.starts[row], end: this.rowEnd(row), activity: this.activities[row] };
  }
}

class Chain {
  constructor(nodes, lane) {
    this.nodes = nodes.map((node) => (node.body ? new Again(node, lane) : new Leaf(node, lane)));
    this.starts = new Float64Array(this.nodes.length);
    this.before = [];
    this.length = 0;
    this.total = lane.zero();
    this.nodes.forEach((node, at) => {
      this.starts[at] = this.length;
      this.before.push(this.total.slice());
      this.length += node.length;
      addTo(this.total, node.total, 1);
    });
    this.most = this.nodes.reduce((most, node) => Math.max(most, node.most), 0);
    const first = this.nodes[0].activity;
    this.activity = this.nodes.every((node) => node.activity === first) ? first : -1;
  }

  add(cycle, sum) {
    const at = bisect(this.starts, cycle);
    addTo(sum, this.before[at], 1);
    this.nodes[at].add(cycle - this.starts[at], sum);
  }

  row(cycle) {
    const at = bisect(this.starts, cycle);
    return later(this.nodes[at].row(cycle - this.starts[at]), this.starts[at]);
  }
}

class Again {
  constructor(node, lane) {
    this.body = new Chain(node.body, lane);
    this.times = node.times;
    this.period = this.body.length;
    this.length = this.period * this.times;
    this.most = this.body.most;
    this.activity = this.body.activity;
    this.total = lane.zero();
    addTo(this.total, this.body.total, this.times);
  }

  time(cycle) {
    return Math.min(Math.floor(cycle / this.period), this.times - 1);
  }

  add(cycle, sum) {
    const time = this.time(cycle);
    addTo(sum, this.body.total, time);
    this.body.add(cycle - time * this.period, sum);
  }

  row(cycle) {
    if (this.activity >= 0) return { start: 0, end: this.length, activity: this.activity };
    const shift = this.time(cycle) * this.period;
    return later(this.body.row(cycle - shift), shift);
  }
}

function addTo(sum, other, times) {
  for (let at = 0; at < sum.length; at += 1) sum[at] += other[at] * times;
}

function later(row, shift) {
  row.start += shift;
  row.end += shift;
  return row;
}

class Lane {
  // One row of the time line. Sums are cycles by cause and, as the last entry, the amount: cycles
  // of service of a channel, bytes times cycles of a tile.
  constructor(plain, run) {
    this.name = plain.name;
    this.kind = plain.kind;
    this.causes = run.causes.length;
    this.causeOf = run.activities.map((activity) => activity[0]);
    this.heldOf = run.activities.map((activity) => activity[5]);
    this.root = new Chain(plain.tree, this);
    this.length = this.root.length;
    // The most that a lane can serve or hold, as far as the trace knows.
    this.limit = this.kind === "channel" ? 1 : Math.max(1, this.root.most);
  }

  zero() {
    return new Float64Array(this.causes + 1);
  }

  sums(start, end) {
    // Cycles by cause, and the amount, from cycle `start` up to `end`.
    const before = this.before(start);
    const sum = this.before(end).slice();
    addTo(sum, before, -1);
    return sum;
  }

  amount(start, end) {
    // Cycles of service, or bytes times cycles. Within a row no sums are subtracted, which could
    // be too large to be exact.
    const row = this.row(start);
    if (end <= row.end && this.kind === "tile") {
      return this.heldOf[row.activity] * (end - start);
    }
    return this.sums(start, end).at(-1);
  }

  before(cycle) {
    // Sums before a cycle; the last answer is kept, for the next column begins where one ends.
    if (this.asked !== cycle) {
      this.answer = this.zero();
      this.asked = cycle;
      this.root.add(Math.min(Math.max(cycle, 0), this.length), this.answer);
    }
    return this.answer;
  }

  row(cycle) {
    return this.root.row(cycle);
  }

  event(cycle) {
    // The row at a cycle joined with neighbours that are the same activity.
    const found = this.row(cycle);
    while (found.start > 0) {
      const before = this.row(found.start - 1);
      if (before.activity !== found.activity) break;
      found.start = before.start;
    }
    while (found.end < this.length) {
      const after = this.row(found.end);
      if (after.activity !== found.activity) break;
      found.end = after.end;
    }
    return found;
  }

  events(start, end, atMost) {
    // Events that overlap a window, whole; at most so many.
    const found = [];
    for (let cycle = start; cycle < end && found.length < atMost; ) {
      const event = this.event(cycle);
      found.push(event);
      cycle = event.end;
    }
    return found;
  }
}
