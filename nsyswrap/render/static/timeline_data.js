// Unpacks the rows of the timeline and computes how much of an interval each class of a row takes.

/** Return the bytes of a base64 text. */
function bytesOf(text) {
  if (Uint8Array.fromBase64) {
    return Uint8Array.fromBase64(text);
  }
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Return the inflated bytes. */
async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Return the numbers of one packed array whose bytes begin at `first`. */
function numbersAt(bytes, first, { n, w, d, s }) {
  const numbers = new Float64Array(n);
  for (let plane = 0, weight = 1; plane < w; plane += 1, weight *= 256) {
    const from = first + plane * n;
    for (let i = 0; i < n; i += 1) {
      numbers[i] += bytes[from + i] * weight;
    }
  }
  for (let i = 0; s && i < n; i += 1) {
    numbers[i] = numbers[i] % 2 ? -(numbers[i] + 1) / 2 : numbers[i] / 2;
  }
  for (let i = 1; d && i < n; i += 1) {
    numbers[i] += numbers[i - 1];
  }
  return numbers;
}

/** Return the head of inflated data with its arrays filled in. */
function unpacked(bytes) {
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const arrays = 4 + length;
  const isPacked = (value) => value !== null && typeof value === "object" && "at" in value && "w" in value;
  const text = new TextDecoder().decode(bytes.subarray(4, arrays));
  return JSON.parse(text, (_, value) => (isPacked(value) ? numbersAt(bytes, arrays + value.at, value) : value));
}

/** Return the index of the last number that is not above `value`; -1 where all are above it. */
function lastNotAbove(numbers, value) {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - 1;
}

/** Return the index of the bin that holds a time; the first or last bin for times outside of all bins. */
function binAt(edges, time) {
  return Math.min(Math.max(lastNotAbove(edges, time), 0), edges.length - 2);
}

/** Return 1 for each bin that has all its items and 0 for the others, from the positions where this changes. */
function exactBins(packed, count) {
  const flags = new Uint8Array(count);
  if (packed === 1) {
    return flags.fill(1);
  }
  for (let i = 0; i + 1 < packed.length; i += 2) {
    flags.fill(1, packed[i], packed[i + 1]);
  }
  return flags;
}

/** Return, for each bin, the first item that may reach into it. */
function firstItems(row, edges) {
  const first = new Int32Array(edges.length - 1);
  let item = 0;
  let reach = row.end.length ? row.end[0] : 0;
  for (let bin = 0; bin < first.length; bin += 1) {
    while (item < row.start.length && reach <= edges[bin]) {
      item += 1;
      reach = Math.max(reach, row.end[item] ?? 0);
    }
    first[bin] = item;
  }
  return first;
}

/** Return the sums over bins of one class, from the items; the row has all of them. */
function sumsOfItems(row, edges, code) {
  const sums = new Float64Array(edges.length - 1);
  for (let i = 0, bin = 0; i < row.start.length; i += 1) {
    const start = Math.max(row.start[i], edges[0]);
    const end = row.end[i];
    while (bin + 1 < sums.length && edges[bin + 1] <= start) {
      bin += 1;
    }
    for (let at = bin; row.code[i] === code && at < sums.length && edges[at] < end; at += 1) {
      sums[at] += Math.min(end, edges[at + 1]) - Math.max(start, edges[at]);
    }
  }
  return sums;
}

/** Return running totals: the sum before each edge. */
function totals(sums) {
  const found = new Float64Array(sums.length + 1);
  for (let i = 0; i < sums.length; i += 1) {
    found[i + 1] = found[i] + sums[i];
  }
  return found;
}

// Values that the full height of a counter's row can have, in hundredths of a per cent.
const COUNTER_SCALES = [100, 200, 500, 1000, 2000, 5000, 10000];

/** Set the running totals of a counter: value times time, and sampled time. */
function counterTotals(row, edges) {
  const width = (bin) => edges[bin + 1] - edges[bin];
  const values = row.sums["0"] ?? new Float64Array(edges.length - 1);
  row.value = totals(values.map((value, bin) => (value < 0 ? 0 : value * width(bin))));
  const largest = values.reduce((most, value) => Math.max(most, value), 0);
  row.most = COUNTER_SCALES.find((scale) => scale >= largest) ?? largest;
  row.sampled = totals(values.map((value, bin) => (value < 0 ? 0 : width(bin))));
}

/** Set the ends, exact bins and running totals of a row, which the other functions use. */
function prepareRow(row, edges) {
  row.end = row.start.map((start, i) => start + row.length[i]);
  row.isExact = exactBins(row.exact, edges.length - 1);
  row.first = firstItems(row, edges);
  row.before = new Map();
  if (row.kind === "counter") {
    counterTotals(row, edges);
    return;
  }
  const codes = row.exact === 1 ? [...new Set(row.code)] : Object.keys(row.sums).map(Number);
  for (const code of codes.sort((one, other) => one - other)) {
    row.before.set(code, totals(row.exact === 1 ? sumsOfItems(row, edges, code) : row.sums[code]));
  }
}

/** Add to `found`, by class, the time of a row's items in the part of a bin before `time`. */
function addPart(row, edges, bin, time, found) {
  const from = edges[bin];
  for (let i = row.first[bin]; i < row.start.length && row.start[i] < time; i += 1) {
    const taken = Math.min(row.end[i], time) - Math.max(row.start[i], from);
    if (taken > 0) {
      found[row.code[i]] += taken;
    }
  }
}

/** Write into `found`, by class, the time of a row before `time`; inside a bin without items it is proportional. */
function takenBefore(row, edges, bin, time, found) {
  const into = Math.min(Math.max(time - edges[bin], 0), edges[bin + 1] - edges[bin]);
  const part = row.isExact[bin] ? 0 : into / (edges[bin + 1] - edges[bin]);
  for (const [code, before] of row.before) {
    found[code] = before[bin] + part * (before[bin + 1] - before[bin]);
  }
  if (row.isExact[bin] && into > 0) {
    addPart(row, edges, bin, Math.min(time, edges[bin + 1]), found);
  }
}

/** Return whether one class takes a whole bin, so that each part of the bin is known, too. */
function isUniform(row, edges, bin) {
  const width = edges[bin + 1] - edges[bin];
  return [...row.before.values()].some((before) => before[bin + 1] - before[bin] === width);
}

/** Return how much of an interval each class of a row takes, and whether this is exact. */
function takenBetween(row, edges, start, end) {
  const [first, last] = [binAt(edges, start), binAt(edges, end)];
  const [before, after] = [new Float64Array(row.classes.length), new Float64Array(row.classes.length)];
  takenBefore(row, edges, first, start, before);
  takenBefore(row, edges, last, end, after);
  const isKnown = (bin, time) =>
    row.isExact[bin] === 1 || time <= edges[bin] || time >= edges[bin + 1] || isUniform(row, edges, bin);
  const exact = isKnown(first, start) && isKnown(last, end);
  return { taken: [...after].map((value, code) => value - before[code]), exact };
}

/** Return the mean of a counter over an interval, in hundredths of a per cent; NaN where it was not sampled. */
function meanBetween(row, edges, start, end) {
  const before = (running, time) => {
    const bin = binAt(edges, time);
    const part = Math.min(Math.max((time - edges[bin]) / (edges[bin + 1] - edges[bin]), 0), 1);
    return running[bin] + part * (running[bin + 1] - running[bin]);
  };
  const sampled = before(row.sampled, end) - before(row.sampled, start);
  return sampled > 0 ? (before(row.value, end) - before(row.value, start)) / sampled : NaN;
}

/** Return the item of a row at a time, else the nearest one within `reach`, else -1. */
function itemAt(row, time, reach) {
  const last = lastNotAbove(row.start, time);
  for (let i = last; i >= 0 && i > last - 64; i -= 1) {
    if (row.end[i] > time) {
      return i;
    }
  }
  const near = [last, last + 1].filter((i) => i >= 0 && i < row.start.length);
  const distance = (i) => Math.max(row.start[i] - time, time - row.end[i]);
  const best = near.sort((one, other) => distance(one) - distance(other))[0];
  return best !== undefined && distance(best) <= reach ? best : -1;
}

/** Return the timeline's data: rows with running totals, its threads, and the texts that their numbers refer to. */
async function loadTimeline(text) {
  const data = unpacked(await inflated(bytesOf(JSON.parse(text).data)));
  data.rows.forEach((row) => prepareRow(row, data.edges));
  data.threads = data.rows.filter((row) => row.kind === "thread");
  return data;
}
