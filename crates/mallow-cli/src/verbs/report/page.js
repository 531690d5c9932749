const data = JSON.parse(document.getElementById("data").textContent);
const METRICS = ["bytes", "calls", "peak", "leaked", "temporary"];
const METRIC_TITLES = {
  bytes: "bytes asked for", calls: "allocations", peak: "live at the peak",
  leaked: "never freed", temporary: "temporary allocations",
};
const IN_CALLS = new Set(["calls", "temporary"]);

// Helpers. Text from the trace goes into text nodes only.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== undefined));
  return made;
}

function drawing(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function scaled(value, units, step) {
  let index = 0;
  // What rounds to a whole step of a unit is one of the next.
  while (value >= step - 0.5 && index < units.length - 1) { value /= step; index += 1; }
  const digits = index === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[index]}`;
}
const bytes = (value) => scaled(value, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
const time = (ns) => scaled(ns, ["ns", "µs", "ms", "s"], 1000);
const count = (value) => Math.round(value).toLocaleString("en-US");
const percent = (part, whole) => `${(100 * part / (whole || 1)).toFixed(1)} %`;
const amount = (metric, value) => IN_CALLS.has(metric) ? count(value) : bytes(value);

function costOf(stack, metric) {
  switch (metric) {
    case "bytes": return stack.allocated.bytes;
    case "calls": return stack.allocated.blocks;
    case "peak": return stack.peak.bytes;
    case "leaked": return stack.leaked.bytes;
    default: return stack.temporary.blocks;
  }
}

/** Columns are [heading, class]; cells are text, or elements. */
function table(columns, rows) {
  const head = element("tr", {}, ...columns.map(([name, kind]) =>
    element("th", { scope: "col", class: kind || "number" }, name)));
  const body = rows.map((cells) => element("tr", {}, ...cells.map((cell, index) =>
    element("td", { class: columns[index][1] || "number" }, cell))));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "table" },
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
}

function meter(value, most) {
  const bar = element("span", {});
  bar.style.width = `${100 * value / (most || 1)}%`;
  return bar;
}

/** The buckets are a quarter of a doubling wide; four of them make a row. */
function doublings(buckets) {
  const joined = new Map();
  for (const bucket of buckets) {
    const low = bucket.low === 0 ? 0 : 2 ** Math.floor(Math.log2(bucket.low));
    const row = joined.get(low) ?? { low, below: Math.max(1, low * 2), calls: 0, bytes: 0 };
    row.calls += bucket.calls;
    row.bytes += bucket.bytes;
    joined.set(low, row);
  }
  const rows = [...joined.values()];
  const most = Math.max(1, ...rows.map((row) => row.calls));
  const all = rows.reduce((sum, row) => sum + row.calls, 0);
  return { rows, most, all };
}

function histogram(buckets, show) {
  const { rows, most, all } = doublings(buckets);
  return table([["from", ""], ["below", ""], ["blocks", ""], ["share", ""], ["bytes", ""], ["", "meter"]],
    rows.map((row) => [show(row.low), show(row.below), count(row.calls), percent(row.calls, all), bytes(row.bytes), meter(row.calls, most)]));
}

function choice(label, names, titles, changed) {
  const options = names.map((name, index) => element("option", { value: name }, titles[index]));
  const select = element("select", { onchange: () => changed(select.value) }, ...options);
  return element("label", {}, `${label} `, select);
}

const main = document.getElementById("report");
const nav = document.getElementById("nav");
main.replaceChildren();

function section(id, title, ...children) {
  const heading = element("h2", {}, title);
  main.append(element("section", { id, "aria-label": title }, heading, ...children));
  nav.append(element("a", { href: `#${id}` }, title));
}

// Summary
function figure(name, value, more) {
  return element("div", {}, element("dt", {}, name),
    element("dd", {}, value, more ? element("small", {}, more) : undefined));
}

function drawSummary() {
  const { recording, totals } = data;
  const started = recording.started_unix_ns
    ? new Date(recording.started_unix_ns / 1e6).toISOString().replace("T", " ").slice(0, 19) + " UTC, " : "";
  const names = new Set([recording.allocator.split("/").pop(), recording.libc, recording.cpu]);
  const where = [...names].filter(Boolean).join(" · ");
  main.append(element("h1", { class: "code" }, recording.command.join(" ")),
    element("p", { class: "quiet" }, `${started}recorded for ${time(recording.duration_ns)}${where ? " · " + where : ""}`),
    element("dl", { class: "figures" },
      figure("Allocations", count(totals.allocated.blocks), `${bytes(totals.allocated.bytes)} in all`),
      figure("Peak", bytes(totals.peak.bytes), `${count(totals.peak.blocks)} blocks, after ${time(totals.peak_time_ns)}`),
      figure("Peak RSS", totals.peak_rss_bytes ? bytes(totals.peak_rss_bytes) : "not sampled"),
      figure("Never freed", bytes(totals.leaked.bytes), `${count(totals.leaked.blocks)} blocks`),
      figure("Temporary", percent(totals.temporary.blocks, totals.allocated.blocks), `${count(totals.temporary.blocks)} freed right after`),
      figure("Freed elsewhere", count(totals.foreign_frees), "by another thread than allocated"),
      figure("Failed", count(totals.failed))));
  if (data.notes.length) {
    main.append(element("ul", { class: "notes" }, ...data.notes.map((note) => element("li", {}, note))));
  }
}

/** The chart comes drawn; here it gets a cursor, for the mouse and for the keyboard. */
function drawTimeline() {
  const { steps, step_ns: width } = data.timeline;
  const drawn = document.getElementById("over-time");
  if (!drawn) return;
  const figure = drawn.content.firstElementChild.cloneNode(true);
  const chart = figure.querySelector("svg");
  const [left, across, bottom] = ["left", "width", "bottom"].map((name) => Number(chart.dataset[name]));
  chart.setAttribute("tabindex", "0");
  chart.setAttribute("aria-label", `${chart.getAttribute("aria-label")}; arrow keys move the cursor`);
  const cursor = drawing("line", { class: "cursor", y1: 0, y2: bottom, x1: 0, x2: 0 });
  chart.append(cursor);
  const line = element("p", { id: "cursor-line", "aria-live": "polite" });
  let at = -1;
  const show = (index) => {
    at = Math.max(0, Math.min(steps.length - 1, index));
    const step = steps[at];
    const x = left + across * (at + 0.5) / steps.length;
    cursor.setAttribute("x1", x); cursor.setAttribute("x2", x);
    cursor.style.visibility = "visible";
    line.textContent = `at ${time(at * width)}: ${bytes(step.live_bytes)} live` +
      (step.rss_bytes === null ? "" : `, RSS ${bytes(step.rss_bytes)}`) +
      `, ${count(step.allocations * 1e9 / width)} allocations/s, ${count(step.frees * 1e9 / width)} frees/s`;
  };
  chart.addEventListener("mousemove", (event) => {
    const box = chart.getBoundingClientRect();
    const place = (event.clientX - box.left) / box.width * chart.viewBox.baseVal.width;
    show(Math.floor((place - left) / across * steps.length));
  });
  chart.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -1e9, End: 1e9 }[event.key];
    if (move !== undefined) { show(Math.max(at, 0) + move); event.preventDefault(); }
  });
  section("timeline", "Over time", figure, line);
}

function drawFunctions() {
  const most = Math.max(1, ...data.functions.map((row) => row.calls));
  section("functions", "Functions", table(
    [["function", "text"], ["calls", ""], ["share", ""], ["bytes asked for", ""], ["failed", ""], ["", "meter"]],
    data.functions.map((row) => [row.name, count(row.calls), percent(row.calls, data.totals.calls),
      row.bytes ? bytes(row.bytes) : "", row.failed ? count(row.failed) : "", meter(row.calls, most)])));
}

// Tasks
const isFree = (name) => /free|delete/.test(name);
const isRealloc = (name) => name.startsWith("realloc");
function callsOf(thread, wanted) {
  return thread.functions.filter((row) => wanted(row.name)).reduce((sum, row) => sum + row.calls, 0);
}

function taskCells(name, threads, sizes) {
  const sum = (value) => threads.reduce((total, thread) => total + value(thread), 0);
  return [name, count(sum((t) => callsOf(t, (n) => !isFree(n) && !isRealloc(n)))),
    count(sum((t) => callsOf(t, isRealloc))), count(sum((t) => callsOf(t, isFree))),
    bytes(sum((t) => t.allocated.bytes)), bytes(sum((t) => t.peak.bytes)), bytes(sum((t) => t.leaked.bytes)), sizes];
}

const MOST_THREADS = 200;
// Deeper processes are not indented further.
const DEEPEST = 12;
function drawTasks() {
  const rows = [];
  const indented = (depth, ...children) => {
    const cell = element("span", {}, ...children);
    cell.style.paddingLeft = `${depth * 22}px`;
    return cell;
  };
  const sizesButton = (thread) => {
    const top = thread.sizes.frequent[0];
    if (!top) return "";
    return element("button", { class: "plain", type: "button", onclick: () => chooseSizes(thread.id) },
      `${count(top.size)} (${(100 * top.share).toFixed(1)} %)`);
  };
  const show = (process, depth, begun) => {
    const command = process.command.length ? process.command.join(" ") : process.executable;
    const quiet = [null, "exit 0", "exec", "unknown"].includes(process.ending);
    const start = begun === "first" ? "" : `${begun} `;
    const name = element("span", { title: command }, start, element("b", {}, String(process.pid)),
      ` ${command}${quiet ? "" : ` (${process.ending})`}`);
    rows.push(taskCells(indented(depth, name), process.threads,
      process.threads.length === 1 ? sizesButton(process.threads[0]) : ""));
    if (process.threads.length > 1) {
      for (const thread of process.threads.slice(0, MOST_THREADS)) {
        rows.push(taskCells(indented(depth + 1, `${thread.tid} ${thread.name}`), [thread], sizesButton(thread)));
      }
      const rest = process.threads.slice(MOST_THREADS);
      if (rest.length) rows.push(taskCells(indented(depth + 1, `${count(rest.length)} more threads`), rest, ""));
    }
  };
  // Each process before those that it started. A chain may be very long, so there is no recursion.
  const known = new Map();
  const roots = [];
  for (const process of data.processes) {
    const parent = known.get(process.parent);
    // By vfork or posix_spawn: it is another process, and after an exec the same one.
    const begun = process.start === "exec" && parent && parent.process.pid !== process.pid ? "spawn" : process.start;
    const node = { process, begun, deeper: begun === "exec" ? 0 : 1, children: [] };
    (parent ? parent.children : roots).push(node);
    if (!known.has(process.id)) known.set(process.id, node);
  }
  const open = roots.reverse().map((node) => ({ node, depth: 0 }));
  while (open.length) {
    const { node, depth } = open.pop();
    show(node.process, Math.min(depth, DEEPEST), node.begun);
    for (const child of node.children.reverse()) open.push({ node: child, depth: depth + child.deeper });
  }
  section("tasks", "Processes and threads", table([["process, thread", "text name"], ["allocations", ""], ["reallocs", ""],
    ["frees", ""], ["bytes", ""], ["at the peak", ""], ["never freed", ""], ["most frequent size", ""]], rows));
}

// Sizes
const sizesBody = element("div", { class: "columns" });
let sizesChoice = null;
function chooseSizes(id) {
  sizesChoice.value = String(id);
  showSizes(String(id));
  document.getElementById("sizes").scrollIntoView();
  sizesChoice.focus();
}

function showSizes(id) {
  const threads = data.processes.flatMap((process) => process.threads);
  const all_threads = { all: data.sizes, resized: data.resized };
  const sizes = all_threads[id] ?? threads.find((thread) => String(thread.id) === id).sizes;
  const { all } = doublings(sizes.buckets);
  const exact = sizes.missing_at_most
    ? `There were too many sizes to count each; no count is too low by more than ${count(sizes.missing_at_most)}.` : "";
  sizesBody.replaceChildren(
    element("div", {}, element("h3", {}, "Most frequent"), table([["size", ""], ["calls", ""], ["share", ""]],
      sizes.frequent.slice(0, 20).map((row) => [count(row.size), count(row.calls), percent(row.calls, all)])),
    element("p", { class: "quiet" }, exact)),
    element("div", {}, element("h3", {}, "Histogram"), histogram(sizes.buckets, bytes)));
}

function drawSizes() {
  const threads = data.processes.flatMap((process) => process.threads.map((thread) => [process, thread]))
    .filter(([, thread]) => thread.allocated.blocks > 0);
  const names = ["all", "resized", ...threads.map(([, thread]) => String(thread.id))];
  const titles = ["new blocks of all threads", "reallocs of all threads", ...threads.map(([process, thread]) => `${process.pid}/${thread.tid} ${thread.name}`)];
  const label = choice("Of", names, titles, showSizes);
  sizesChoice = label.querySelector("select");
  section("sizes", "Sizes", element("div", { class: "controls" }, label), sizesBody);
  showSizes("all");
}

function drawLifetimes() {
  const { buckets, median_ns: median, p90_ns: p90, p99_ns: p99 } = data.lifetimes;
  if (median === null) return;
  section("lifetimes", "Lifetimes",
    element("p", {}, `Of the freed blocks, half lived up to ${time(median)}, 90 % up to ${time(p90)}, 99 % up to ${time(p99)}.`),
    histogram(buckets, time));
}

// Stacks
function frameLine(frame) {
  const place = frame.file ? `${frame.file}${frame.line ? ":" + frame.line : ""}` : frame.module ?? "";
  return element("li", {}, frame.function, element("small", {}, `  ${place}${frame.inlined ? " (inlined)" : ""}`));
}

function stackEntry(stack, metric, total) {
  const value = costOf(stack, metric);
  const where = stack.frames.map((frame) => frame.function).join(" ‹ ") || "(no stack)";
  const mean = stack.freed ? `, mean lifetime ${time(stack.lifetime_ns / stack.freed)}` : "";
  return element("details", { class: "stack" },
    element("summary", {}, element("span", { class: "value" }, amount(metric, value)),
      element("span", { class: "share" }, percent(value, total)), element("span", { class: "where" }, where)),
    element("p", {}, `${count(stack.allocated.blocks)} allocations of ${bytes(stack.allocated.bytes)}; at the peak ` +
      `${bytes(stack.peak.bytes)} in ${count(stack.peak.blocks)} blocks; never freed ${bytes(stack.leaked.bytes)} in ` +
      `${count(stack.leaked.blocks)}; temporary ${count(stack.temporary.blocks)}${mean}`),
    element("ol", { class: "frames" }, ...stack.frames.map(frameLine)));
}

function drawStacks() {
  if (!data.stacks.some((stack) => stack.frames.length)) {
    section("stacks", "Stacks", element("p", {}, "The trace has no stacks; record with --stacks fp, or --stacks full."));
    return;
  }
  const list = element("div", {});
  let metric = "bytes", wanted = "";
  const show = () => {
    const total = data.flame.v[METRICS.indexOf(metric)];
    const found = data.stacks.filter((stack) => costOf(stack, metric) > 0 &&
      stack.frames.some((frame) => frame.function.toLowerCase().includes(wanted)) | (wanted === ""));
    found.sort((a, b) => costOf(b, metric) - costOf(a, metric));
    const entries = found.slice(0, 50).map((stack) => stackEntry(stack, metric, total));
    list.replaceChildren(...(entries.length ? entries : [element("p", { class: "quiet" }, "No stack fits.")]));
  };
  const filter = element("input", { type: "search", "aria-label": "Filter stacks by function",
    placeholder: "function", oninput: () => { wanted = filter.value.toLowerCase(); show(); } });
  const by = choice("By", METRICS, METRICS.map((name) => METRIC_TITLES[name]), (name) => { metric = name; show(); });
  section("stacks", "Stacks", element("div", { class: "controls" }, by, filter), list);
  show();
}

function drawDifference() {
  const difference = data.difference;
  if (!difference) return;
  const show = (unit, value) => unit === "bytes" ? bytes(value) : count(value);
  const change = (before, after) => {
    const text = before === after ? "none" : before === 0 ? "new" : after === 0 ? "gone"
      : `${after > before ? "+" : ""}${(100 * (after / before - 1)).toFixed(1)} %`;
    return element("span", { class: after > before ? "more" : after < before ? "less" : "" }, text);
  };
  const totals = table([["", "text"], ["before", ""], ["after", ""], ["change", ""]], difference.totals.map((row) =>
    [row.name, show(row.unit, row.before), show(row.unit, row.after), change(row.before, row.after)]));
  const list = element("div", {});
  const names = difference.stacks.map((stacks) => stacks.metric);
  const showStacks = (metric) => {
    const unit = IN_CALLS.has(metric) ? "calls" : "bytes";
    const chosen = difference.stacks.find((stacks) => stacks.metric === metric);
    list.replaceChildren(table([["before", ""], ["after", ""], ["change", ""], ["stack", "text name"]],
      chosen.changes.map((row) => [show(unit, row.before), show(unit, row.after), change(row.before, row.after),
        element("span", { title: row.stack }, row.stack.split(";").reverse().join(" ‹ ") || "(no stack)")])));
  };
  const controls = names.length
    ? element("div", { class: "controls" }, choice("Stacks that changed most, by", names, names.map((name) => METRIC_TITLES[name]), showStacks))
    : element("p", {}, "No stack changed.");
  section("difference", "Difference", element("p", {}, `Before is ${difference.other}, after is this trace.`), totals, controls, list);
  if (names.length) showStacks(names[0]);
}
