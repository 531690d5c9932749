
// The flame graph: the outermost function on top, a width for what each one and what it calls cost.
const ROW = 20;
const NARROWEST = 0.0012;

function hueOf(name) {
  let hash = 0;
  for (let index = 0; index < name.length; index += 1) hash = (hash * 31 + name.charCodeAt(index)) >>> 0;
  return 12 + hash % 42;
}

class FlameGraph {
  constructor(root, both) {
    this.both = both;
    this.metric = "bytes";
    this.wanted = "";
    this.root = this.link(root, null, 0);
    this.zoomed = this.root;
    this.focused = this.root;
    this.box = element("div", { id: "flame-graph", role: "tree", "aria-label": "Flame graph" });
    this.line = element("p", { id: "flame-line", "aria-live": "polite" });
    this.box.addEventListener("keydown", (event) => this.key(event));
  }

  link(node, parent, depth) {
    node.parent = parent;
    node.depth = depth;
    for (const child of node.c ?? []) this.link(child, node, depth + 1);
    return node;
  }

  /** With another trace, a frame is as wide as the larger of the two needs. */
  value(node) {
    const index = METRICS.indexOf(this.metric);
    return this.both ? Math.max(node.v[index], node.o[index]) : node.v[index];
  }

  draw(keepFocus) {
    const path = [];
    for (let node = this.zoomed; node; node = node.parent) path.unshift(node);
    this.shown = [];
    path.slice(0, -1).forEach((node, row) => this.place(node, 0, 1, row, true));
    const deepest = this.subtree(this.zoomed, 0, 1, path.length - 1);
    this.box.style.height = `${(deepest + 1) * ROW}px`;
    this.box.replaceChildren(...this.shown.map((entry) => entry.element));
    if (!this.shown.some((entry) => entry.node === this.focused)) this.focused = this.zoomed;
    this.focus(this.focused, keepFocus);
  }

  subtree(node, left, width, row) {
    this.place(node, left, width, row, false);
    let deepest = row;
    const children = [...node.c ?? []].sort((a, b) => this.value(b) - this.value(a));
    const sum = children.reduce((total, child) => total + this.value(child), 0);
    const whole = Math.max(this.value(node), sum) || 1;
    for (const child of children) {
      const part = width * this.value(child) / whole;
      if (part < NARROWEST) break;
      deepest = Math.max(deepest, this.subtree(child, left, part, row + 1));
      left += part;
    }
    return deepest;
  }

  place(node, left, width, row, above) {
    const made = element("div", { class: "frame", role: "treeitem", tabindex: "-1", title: this.describe(node),
      "aria-level": String(row + 1), onclick: () => this.zoom(node), onmouseenter: () => { this.line.textContent = this.describe(node); } },
    width > 0.02 ? node.n : "");
    made.setAttribute("aria-label", this.describe(node));
    made.style.left = `${left * 100}%`;
    made.style.width = `${width * 100}%`;
    made.style.top = `${row * ROW}px`;
    if (width < 0.012) made.style.padding = "0";
    made.style.setProperty("--hue", hueOf(node.n));
    if (this.both) this.colour(made, node);
    if (above) made.classList.add("dim");
    if (this.wanted) made.classList.add(node.n.toLowerCase().includes(this.wanted) ? "found" : "dim");
    this.shown.push({ node, row, left, width, element: made });
  }

  colour(made, node) {
    const index = METRICS.indexOf(this.metric);
    const [after, before] = [node.v[index], node.o[index]];
    const change = (after - before) / (Math.max(after, before) || 1);
    made.classList.add(change > 0.005 ? "grown" : change < -0.005 ? "shrunk" : "same");
    made.style.setProperty("--depth", Math.min(1, Math.abs(change) * 1.2).toFixed(3));
  }

  describe(node) {
    const index = METRICS.indexOf(this.metric);
    const total = this.root.v[index];
    const value = `${amount(this.metric, node.v[index])} (${percent(node.v[index], total)})`;
    return this.both ? `${node.n}: ${value}, before ${amount(this.metric, node.o[index])}` : `${node.n}: ${value}`;
  }

  zoom(node) {
    this.zoomed = node;
    this.focused = node;
    this.draw(true);
  }

  focus(node, really) {
    this.focused = node;
    for (const entry of this.shown) entry.element.tabIndex = entry.node === node ? 0 : -1;
    const entry = this.shown.find((shown) => shown.node === node);
    this.line.textContent = this.describe(node);
    if (really) entry.element.focus({ preventScroll: false });
  }

  /** The neighbour in a row: the nearest frame to the left or right. */
  beside(direction) {
    const here = this.shown.find((entry) => entry.node === this.focused);
    const row = this.shown.filter((entry) => entry.row === here.row).sort((a, b) => a.left - b.left);
    return row[row.indexOf(here) + direction]?.node;
  }

  key(event) {
    const visible = (node) => node && this.shown.some((entry) => entry.node === node);
    const widest = () => [...this.focused.c ?? []].sort((a, b) => this.value(b) - this.value(a))[0];
    const targets = { ArrowUp: () => this.focused.parent, ArrowDown: widest, Home: () => this.root,
      ArrowLeft: () => this.beside(-1), ArrowRight: () => this.beside(1) };
    if (event.key === "Enter" || event.key === " ") this.zoom(this.focused);
    else if (event.key === "Escape" || event.key === "Backspace") this.zoom(event.key === "Escape" ? this.root : this.zoomed.parent ?? this.root);
    else if (targets[event.key]) {
      const node = targets[event.key]();
      if (visible(node)) this.focus(node, true);
    } else return;
    event.preventDefault();
  }
}

function drawFlame() {
  if (!data.flame.c) return;
  const graph = new FlameGraph(data.flame, Boolean(data.difference));
  const search = element("input", { type: "search", id: "flame-search", placeholder: "function", "aria-label": "Mark functions",
    oninput: () => { graph.wanted = search.value.toLowerCase(); graph.draw(false); } });
  const by = choice("By", METRICS, METRICS.map((name) => METRIC_TITLES[name]), (name) => {
    graph.metric = name;
    graph.zoomed = graph.root;
    graph.draw(false);
  });
  const whole = element("button", { type: "button", onclick: () => graph.zoom(graph.root) }, "Whole graph");
  const key = (name) => element("kbd", {}, name);
  const help = element("p", { class: "quiet" }, key("Tab"), " to the graph, ", key("←"), " ", key("→"), " ", key("↑"), " ", key("↓"),
    " move, ", key("Enter"), " zooms, ", key("Esc"), " shows all, ", key("/"), " searches.",
    data.difference ? " Red has grown, blue has shrunk; a frame is as wide as the larger of the two traces needs." : "");
  section("flame", "Flame graph", element("div", { class: "controls" }, by, search, whole), help, graph.box, graph.line);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) {
      search.focus();
      event.preventDefault();
    }
  });
  graph.draw(false);
}

drawSummary();
drawTimeline();
drawFunctions();
drawTasks();
drawSizes();
drawLifetimes();
drawStacks();
drawFlame();
drawDifference();
