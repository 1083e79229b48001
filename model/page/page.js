"use strict";
// Everything shown is put in as text. The data is what model/report.py describes.

const data = JSON.parse(document.getElementById("data").textContent);
const number = new Intl.NumberFormat("en");
const root = document.documentElement;

/** An element: attributes (a function is a listener, true and false switch), then children, of which strings are text. */
function h(name, attributes, ...children) {
  const svg = ["svg", "path", "rect", "text", "tspan", "g", "circle", "polygon"].includes(name);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const section = (title, note, ...children) =>
  h("section", { "aria-label": title }, h("h2", null, title, note ? h("small", null, note) : null), ...children);

const plural = (count, one) => `${number.format(count)} ${one}${count === 1 ? "" : "s"}`;

// --- the head ---------------------------------------------------------------------------------------------------------

const repaint = new Set(); // what has to be drawn again in other colours

function themeButton() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const now = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  const button = h("button", { id: "theme", type: "button", click: () => set(now() === "dark" ? "light" : "dark") });
  function set(theme) {
    if (theme) root.dataset.theme = theme;
    button.textContent = now() === "dark" ? "Light" : "Dark";
    repaint.forEach((draw) => draw());
  }
  dark.addEventListener("change", () => set());
  set();
  return button;
}

function head() {
  const facts = (data.facts || []).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, String(value))));
  return h("header", null, h("h1", { id: "verdict", class: data.verdict }, data.verdict), h("dl", null, facts), themeButton());
}

// --- what went wrong --------------------------------------------------------------------------------------------------

function failures() {
  const all = data.failures || [];
  if (!all.length) return null;
  const place = h("div", { id: "failure" });
  const buttons = all.map((failure, index) =>
    h("button", { type: "button", role: "tab", click: () => show(index) },
      h("b", null, [failure.kind, failure.layer].filter(Boolean).join(" ")), " ", failure.title || failure.difference));
  function show(index) {
    buttons.forEach((button, other) => button.setAttribute("aria-selected", String(other === index)));
    place.replaceChildren(...failureParts(all[index]));
  }
  const first = Math.max(0, all.findIndex((each) => hasPicture(each)));
  show(first);
  const pick = h("div", { class: "pick", role: "tablist", "aria-label": "violations", keydown: (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const next = buttons[buttons.indexOf(document.activeElement) + step];
    if (step && next) { event.preventDefault(); next.focus(); next.click(); }
  } }, buttons);
  return section("What went wrong", plural(all.length, "violation"), all.length > 1 ? pick : null, place);
}

const hasSteps = (failure) => failure.story && failure.story.steps && failure.story.steps.length > 0;
const hasPicture = (failure) => hasSteps(failure) || failure.timeline !== null && failure.timeline !== undefined;

function failureParts(failure) {
  const parts = [
    h("h3", null, failure.title || ""),
    h("p", { class: "difference mono" }, failure.difference),
  ];
  if (hasSteps(failure)) parts.push(stepper(failure));
  else if (hasPicture(failure)) parts.push(timeline(data.timelines[failure.timeline]));
  if (!hasSteps(failure) && failure.program.length) {
    const lines = h("pre", null, failure.program.join("\n"));
    parts.push(hasPicture(failure) ? h("details", null, h("summary", null, "in words"), lines) : lines);
  }
  if (failure.replay) parts.push(h("p", { class: "replay" }, h("span", { class: "dim" }, "replay"), h("code", null, failure.replay)));
  return parts;
}

/** The program on one side; what came of the step that is chosen on the other: the replies, and the rows. */
function stepper(failure) {
  const { steps, columns } = failure.story, before = failure.program.length - steps.length;
  const side = h("div", { class: "side", id: "step", "aria-live": "polite" });
  const buttons = steps.map((_, index) =>
    h("button", { type: "button", click: () => show(index) }, failure.program[before + index]));
  const lines = [
    ...failure.program.slice(0, before).map((line) => h("li", null, h("span", null, line))),
    ...buttons.map((button, index) => h("li", { class: index === steps.length - 1 ? "bad" : null }, button)),
  ];
  let current = steps.length - 1;
  const title = h("span", { class: "dim" });
  const back = h("button", { type: "button", "aria-label": "step before", click: () => show(current - 1) }, "←");
  const on = h("button", { type: "button", "aria-label": "next step", click: () => show(current + 1) }, "→");
  const rows = h("div");
  side.append(h("div", { class: "stepper" }, back, on, title), rows);
  function show(index, focus) {
    current = Math.min(steps.length - 1, Math.max(0, index));
    buttons.forEach((button, other) => other === current ? button.setAttribute("aria-current", "step") : button.removeAttribute("aria-current"));
    back.disabled = current === 0;
    on.disabled = current === steps.length - 1;
    title.textContent = `step ${current + 1} of ${steps.length}` + (current === steps.length - 1 ? ", where they differ" : "");
    rows.replaceChildren(...stepParts(steps[current], steps[current - 1], columns));
    if (focus) buttons[current].focus();
  }
  show(current);
  const program = h("ol", { class: "program", "aria-label": "program", keydown: (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, Home: -1e9, End: 1e9 }[event.key];
    if (step) { event.preventDefault(); show(current + step, true); }
  } }, lines);
  return h("div", { class: "steps" }, program, side);
}

function stepParts(step, before, columns) {
  const differs = step.got !== step.want;
  const replies = h("table", { class: "replies" }, h("tbody", { class: differs ? "differs" : null },
    h("tr", null, h("th", { scope: "row" }, "model replies"), h("td", null, step.want)),
    h("tr", null, h("th", { scope: "row" }, `module replies${differs ? " ≠" : ""}`), h("td", null, step.got))));
  const old = new Map(before ? before.rows.map(([table, model], index) => [`${table} ${index}`, model]) : []);
  const cards = Object.keys(columns).flatMap((table) => {
    const rows = step.rows.map((row, index) => ({ table: row[0], model: row[1], file: row[2] === "=" ? row[1] : row[2],
      same: row[2] === "=", old: old.get(`${row[0]} ${index}`) })).filter((row) => row.table === table);
    if (!rows.length) return [];
    rows.sort((one, other) => one.same - other.same);
    return columns[table].length > 5 ? rows.map((row) => tall(table, columns[table], row)) : [flat(table, columns[table], rows)];
  });
  return [replies,
    step.note ? h("p", { class: "caption" }, step.note) : null,
    cards.length ? h("div", { class: "cards" }, cards) : h("p", { class: "caption" }, "no rows"),
  ].filter(Boolean);
}

const value = (row, index) => row ? row[index] : "no row";

/** One row of many columns: a line for each, the model's value beside the file's. */
function tall(table, names, row) {
  const lines = names.map((name, index) => {
    const must = value(row.model, index), is = value(row.file, index), differs = must !== is;
    const changed = row.old && row.old[index] !== must ? "changed" : null;
    return h("tr", { class: differs ? "differs" : null }, h("th", { scope: "row" }, differs ? `${name} ≠` : name),
      h("td", { class: changed }, must), h("td", { class: changed }, is));
  });
  const key = value(row.model || row.file, 1);
  return h("div", null, h("p", { class: "caption" }, `${table} ${key}${row.same ? "" : ": differs"}`),
    h("table", { class: "rows" }, h("thead", null, h("tr", null, ["column", "model", "file"].map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", null, lines)));
}

/** Rows of few columns: one line each, the model's values on the left, the file's on the right. */
function flat(table, names, rows) {
  const cell = (row, index, side) => h("td", { class: value(row.model, index) !== value(row.file, index) ? "differs" : null }, value(row[side], index));
  const lines = rows.map((row) => h("tr", null, names.map((_, index) => cell(row, index, "model")), names.map((_, index) => cell(row, index, "file")),
    h("td", null, row.same ? "" : "≠")));
  const headings = ["model", "file"].flatMap((side) => names.map((name) => h("th", { scope: "col" }, `${side}: ${name}`)));
  return h("div", { class: "wide scroll" }, h("p", { class: "caption" }, `${table}, ${plural(rows.length, "row")}`),
    h("table", { class: "rows" }, h("thead", null, h("tr", null, headings, h("th", null, ""))), h("tbody", null, lines)));
}

// --- the layers, the coverage, the lists ------------------------------------------------------------------------------

function layers() {
  const rows = data.layers || [], titles = ["judged", "layer", "checks", "did", "result", "seconds"];
  if (!rows.length) return null;
  const looks = (row) => ["dim", null, "num", null, row[4], "num dim"];
  const row = (each) => h("tr", null, each.map((text, index) => h("td", { class: looks(each)[index] }, text)));
  const table = h("table", { id: "layers" },
    h("thead", null, h("tr", null, titles.map((title) => h("th", { scope: "col", class: ["checks", "seconds"].includes(title) ? "num" : null }, title)))),
    [...new Set(rows.map(([kind]) => kind))].map((kind) => h("tbody", { class: "kind" }, rows.filter((each) => each[0] === kind).map(row))));
  const notTried = (data.not_tried || []).map((line) => h("p", { class: "caption" }, `not tried here: ${line}`));
  return section("Layers", null, h("div", { class: "scroll" }, table), ...notTried);
}

function unanswered() {
  const lines = data.unanswered || [], item = (line) => h("li", null, line);
  if (!lines.length) return null;
  const rest = lines.length > 12 ? h("details", null, h("summary", null, `${number.format(lines.length - 12)} more`), h("ul", null, lines.slice(12).map(item))) : null;
  return section(data.verdict === "unknown" ? "Why there is no answer" : "Without an answer", plural(lines.length, "reason"),
    h("div", { class: "mono reasons", id: "unanswered" }, h("ul", null, lines.slice(0, 12).map(item)), rest));
}

function coverage() {
  const parts = (data.coverage || []).map(({ kind, ops, diagram }) => {
    const rows = ops.map(([name, done, all]) => h("tr", null, h("td", null, name),
      h("td", { class: "num" }, `${number.format(done)} of ${number.format(all)}`),
      h("td", null, bar(done, all))));
    const table = h("table", null, h("caption", { class: "caption" }, kind), h("tbody", null, rows));
    return h("div", { class: "cover" }, table, diagram ? h("figure", { class: "diagram scroll", tabindex: "0", role: "img", "aria-label": diagram.says }, draw(diagram)) : null);
  });
  return parts.length ? section("Transitions of the model", "by operation, each replayed on the file; the diagram counts what they change", ...parts) : null;
}

function bar(done, all) {
  const inside = h("i");
  inside.style.width = `${all ? 100 * done / all : 0}%`;
  return h("div", { class: done === all ? "bar" : "bar part", "aria-hidden": "true" }, inside);
}

/** The status diagram. A node is [name, x, y]; an edge bends to its left by so much, and its labels stand at (x, y). */
function draw({ width, height, nodes, edges }) {
  const at = new Map(nodes.map(([name, x, y]) => [name, { x, y, r: name === "" ? 5 : 0 }]));
  const box = (point) => point.r ? [7, 7] : [52, 19];
  const lines = edges.map(({ from, to, bend, labels, x, y, anchor }) => {
    const a = at.get(from), b = at.get(to);
    let d, tip, angle;
    if (from === to) {
      const top = a.y - 19;
      d = `M${a.x - 20},${top} C${a.x - 44},${top - 54} ${a.x + 44},${top - 54} ${a.x + 20},${top - 3}`;
      tip = [a.x + 20, top]; angle = Math.PI * 0.62;
    } else {
      const mid = { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 }, length = Math.hypot(b.x - a.x, b.y - a.y);
      const c = { x: mid.x + bend * (b.y - a.y) / length, y: mid.y - bend * (b.x - a.x) / length };
      const start = edgeOf(a, c, box(a)), end = edgeOf(b, c, box(b));
      d = `M${start} Q${c.x},${c.y} ${end}`;
      tip = end; angle = Math.atan2(end[1] - c.y, end[0] - c.x);
    }
    const wing = (by) => `${tip[0] - 9 * Math.cos(angle + by)},${tip[1] - 9 * Math.sin(angle + by)}`;
    const words = labels.map(([name, count], index) => h("text", { x, y: y + 15 * index, "text-anchor": anchor, class: "halo" },
      `${name} `, h("tspan", { class: "count" }, number.format(count))));
    return h("g", null, h("path", { class: "edge", d }), h("polygon", { class: "tip", points: `${tip} ${wing(0.4)} ${wing(-0.4)}` }), words);
  });
  const boxes = nodes.map(([name, x, y]) => name === ""
    ? h("circle", { cx: x, cy: y, r: 5, class: "tip" })
    : h("g", null, h("rect", { class: "node", x: x - 52, y: y - 19, width: 104, height: 38, rx: 19 }),
      h("text", { class: "name", x, y: y + 5, "text-anchor": "middle" }, name)));
  return h("svg", { viewBox: `0 0 ${width} ${height}` }, lines, boxes);
}

/** Where the line from a box's middle towards a point leaves the box. */
function edgeOf(node, towards, [w, hgt]) {
  const dx = towards.x - node.x, dy = towards.y - node.y;
  const share = 1 / Math.max(Math.abs(dx) / w, Math.abs(dy) / hgt, 1e-9);
  return [node.x + dx * share, node.y + dy * share];
}

function lists() {
  const observed = (data.observed || []).map(([count, what]) => h("li", null, h("b", { class: "num" }, number.format(count)), h("span", null, what)));
  const not = (data.not_guaranteed || []).map(([what, why]) => h("li", null, h("span", null, h("b", null, what), `: ${why}`)));
  if (!observed.length && !not.length) return null;
  const two = observed.length ? "two" : null;
  return h("section", { class: two, "aria-label": "what was observed, and what is not guaranteed" },
    observed.length ? h("div", { id: "observed" }, h("h2", null, "Observed"), h("ul", null, observed)) : "",
    h("div", { id: "not-guaranteed" }, h("h2", null, "Not tried, or not guaranteed"), h("ul", null, not)));
}

// --- the timeline -----------------------------------------------------------------------------------------------------

const KINDS = { // name: [label, shape, colour]
  lease: ["lease", "strip", "lease"], enqueue: ["enqueue", "bar", "enqueue"], claim: ["claim", "bar", "claim"],
  finish: ["finish", "bar", "finish"], redrive: ["redrive", "bar", "redrive"], session: ["session", "bar", "session"],
  send: ["send", "bar", "send"], stall: ["stall", "hatch", "stall"],
  refused: ["stale finish refused", "refused", "refused"], kill: ["kill", "cross", "kill"], wake: ["wake-up", "up", "wake"],
  commit: ["receiver commits", "diamond", "commit"], again: ["sent again, kept once", "ring", "again"], "turned away": ["not kept", "dash", "away"],
};
const LANE = 30, HEAD = 40, PAGE = 25, LEAST_SPAN = 50;
const fine = new Intl.NumberFormat("en", { minimumFractionDigits: 3 });
const ms = (us) => fine.format(us / 1000);

function timeline(source) {
  const items = source.items.map(([lane, kind, from, to, job, token, text, says], index) => (
    { index, lane, kind, from, to, open: to === null, job, token, text, says, bad: source.wrong.includes(index) }));
  const ends = source.lanes.map(() => source.end);
  items.forEach((item) => { if (item.kind === "kill") ends[item.lane] = item.from; });
  items.forEach((item) => {
    if (item.open) item.to = Math.max(item.from, ends[item.lane]);
    item.words = `${source.lanes[item.lane].name} ${item.kind} ${item.job} ${item.text} ${item.says}`.toLowerCase();
  });
  items.sort((one, other) => one.from - other.from || one.index - other.index);
  const order = [...source.lanes.keys()].sort((one, other) => (source.lanes[other].name === "receiver") - (source.lanes[one].name === "receiver") || one - other);
  const present = Object.keys(KINDS).filter((kind) => items.some((item) => item.kind === kind));
  const jobs = [...new Set(items.map((item) => item.job))].filter(Boolean).sort();
  const groups = [...new Set(source.lanes.map((lane) => lane.group))];
  const filter = { text: "", process: "", job: source.job || "", kinds: new Set(present), merged: false };
  let shown = [], rows = [], view = [0, source.end], chosen = null, pageNumber = 0, colours = {}, pending = 0;

  // --- its parts

  const search = h("input", { type: "search", placeholder: "text", "aria-label": "text", input: (event) => { filter.text = event.target.value.toLowerCase(); refilter(); } });
  const option = (value, text, selected) => h("option", { value, selected }, text);
  const process = h("select", { "aria-label": "process", change: (event) => { filter.process = event.target.value; refilter(); } },
    option("", "every process"), groups.map((group) => {
      const members = source.lanes.filter((lane) => lane.group === group);
      return members.length > 1 ? h("optgroup", { label: group }, option(`group ${group}`, `${group}, all`), members.map((lane) => option(lane.name, `${lane.name}, pid ${lane.pid}`))) : option(members[0].name, members[0].name);
    }));
  const job = h("select", { "aria-label": "job", change: (event) => { filter.job = event.target.value; refilter(); fit(); } },
    option("", "every job"), jobs.map((name) => option(name, name, name === filter.job)));
  const merge = h("input", { type: "checkbox", change: (event) => { filter.merged = event.target.checked; refilter(); } });
  const count = h("output", { "aria-live": "polite" });
  const extent = h("span", { class: "extent dim" });
  const button = (text, label, click) => h("button", { type: "button", "aria-label": label, title: label, click }, text);
  const tools = h("div", { class: "tools", role: "group", "aria-label": "filter and zoom" }, search, process, jobs.length ? job : null,
    groups.length < source.lanes.length ? h("label", null, merge, "a lane for each seat") : null, count,
    h("span", { class: "push" }, extent, button("−", "zoom out", () => zoom(1.6)), button("+", "zoom in", () => zoom(1 / 1.6)),
      button("Fit", "fit what is shown", () => fit()), button("All", "remove every filter", reset)));
  const samples = present.map((kind) => h("canvas", { width: 36, height: 28, "aria-hidden": "true" }));
  const boxes = present.map((kind) => h("input", { type: "checkbox", checked: true, change: (event) => {
    if (event.target.checked) filter.kinds.add(kind); else filter.kinds.delete(kind);
    refilter();
  } }));
  const chips = h("fieldset", { class: "chips", "aria-label": "kinds" }, present.map((kind, index) => h("label", null, boxes[index], samples[index], KINDS[kind][0])));
  const canvas = h("canvas", { tabindex: "0", role: "application", "aria-label": `timeline: ${source.title}`, "aria-describedby": "keys" });
  const spacer = h("div");
  const stage = h("div", { class: "stage" }, canvas, spacer);
  const tip = h("div", { class: "tip", "aria-hidden": "true", hidden: true });
  const details = h("div", { class: "chosen", "aria-live": "polite" });
  const body = h("tbody");
  const table = h("table", { class: "list" }, h("thead", null, h("tr", null, ["ms", "process", "what", "job", "token", "", "says"].map((name) =>
    h("th", { scope: "col" }, name)))), body);
  const where = h("span", { class: "dim" });
  const earlier = h("button", { type: "button", click: () => list(pageNumber - 1) }, "Earlier");
  const later = h("button", { type: "button", click: () => list(pageNumber + 1) }, "Later");
  const hint = h("p", { class: "hint", id: "keys" },
    "Click an item. Drag pans; the wheel zooms once the picture has the focus. Keys: ← → next item, ↑ ↓ next lane, + − zoom, Page ↑ ↓ pan, 0 fit, Esc let go.");
  const all = h("div", { class: "timeline" }, tools, stage, chips, hint, details,
    h("details", { open: items.some((item) => item.bad) }, h("summary", null, "the same as a list"), h("div", { class: "tools" }, earlier, later, where), h("div", { class: "scroll" }, table)), tip);

  // --- which items

  function refilter() {
    const spans = new Map(); // by lane, from when to when it has to do with the job
    if (filter.job) for (const item of items) if (item.job === filter.job) {
      const span = spans.get(item.lane);
      if (span) span[1] = Math.max(span[1], item.to); else spans.set(item.lane, [item.from, item.to]);
    }
    const ofJob = (item) => {
      if (!filter.job || item.job === filter.job) return true;
      const span = item.job === "" && !(item.kind in { claim: 1 }) && spans.get(item.lane);
      return Boolean(span) && item.to >= span[0] && item.from <= span[1];
    };
    const lane = (item) => source.lanes[item.lane];
    const ofProcess = (item) => !filter.process || lane(item).name === filter.process || `group ${lane(item).group}` === filter.process;
    shown = items.filter((item) => filter.kinds.has(item.kind) && ofJob(item) && ofProcess(item) && (!filter.text || item.words.includes(filter.text)));
    const used = new Set(shown.map((item) => item.lane));
    const byName = new Map();
    for (const number of order) if (used.has(number)) {
      const key = filter.merged ? source.lanes[number].group : source.lanes[number].name;
      if (!byName.has(key)) byName.set(key, { name: key, group: source.lanes[number].group, pids: [], items: [], y: 0 });
      byName.get(key).pids.push(source.lanes[number].pid);
    }
    rows = [...byName.values()];
    rows.forEach((row, index) => { row.y = HEAD + index * LANE; });
    for (const item of shown) {
      item.row = byName.get(filter.merged ? lane(item).group : lane(item).name);
      item.row.items.push(item);
    }
    count.textContent = `${number.format(shown.length)} of ${number.format(items.length)}`;
    if (chosen && !shown.includes(chosen)) choose(null);
    list(0);
    resize();
  }

  function reset() {
    Object.assign(filter, { text: "", process: "", job: "", kinds: new Set(present) });
    search.value = process.value = job.value = "";
    boxes.forEach((box) => { box.checked = true; });
    refilter();
    fit();
  }

  // --- the view

  function setView(from, to) {
    const span = Math.min(Math.max(to - from, LEAST_SPAN), 1.1 * source.end + LEAST_SPAN);
    const start = Math.min(Math.max(from, -0.05 * source.end), 1.05 * source.end - span + LEAST_SPAN);
    view = [start, start + span];
    extent.textContent = `${number.format(Math.max(0, Math.round(view[0] / 1000)))} to ${number.format(Math.round(view[1] / 1000))} ms`;
    paint();
  }

  function fit() {
    let from = shown.length ? Infinity : 0, to = shown.length ? 0 : source.end;
    for (const item of shown) { from = Math.min(from, item.from); to = Math.max(to, item.to); }
    const margin = Math.max(20, 0.03 * (to - from));
    setView(from - margin, to + margin);
  }

  /** From where the process took what it got wrong to a little after. */
  function focus(bad) {
    const from = Math.min(...shown.filter((item) => item.lane === bad.lane && item.job === bad.job && item.from <= bad.from).map((item) => item.from), bad.from);
    const span = Math.max(200, bad.to - from);
    setView(from - 0.15 * span, bad.to + 0.35 * span);
  }

  const gutter = () => canvas.clientWidth < 560 ? 92 : 168;
  const across = () => Math.max(1, canvas.clientWidth - gutter() - 8);
  const xOf = (us) => gutter() + (us - view[0]) / (view[1] - view[0]) * across();
  const timeAt = (x) => view[0] + (x - gutter()) / across() * (view[1] - view[0]);

  function zoom(by, around) {
    const middle = around ?? (chosen ? Math.min(Math.max(chosen.from, view[0]), view[1]) : (view[0] + view[1]) / 2);
    setView(middle - (middle - view[0]) * by, middle + (view[1] - middle) * by);
  }

  const pan = (share) => setView(view[0] + share * (view[1] - view[0]), view[1] + share * (view[1] - view[0]));

  // --- the picture

  function resize() {
    const height = HEAD + Math.max(1, rows.length) * LANE + 6, seen = Math.min(height, 616, Math.max(200, innerHeight * 0.68 - 4));
    canvas.style.width = "100%";
    canvas.style.height = `${seen}px`;
    spacer.style.height = `${height - seen}px`;
    const ratio = devicePixelRatio || 1;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
    paint();
  }

  function paint() {
    if (!pending) pending = requestAnimationFrame(() => { pending = 0; if (all.isConnected) render(); });
  }

  function palette() {
    const style = getComputedStyle(root);
    for (const name of ["ink", "dim", "line", "panel", "sunk", "red", "lease-ink", "focus", ...Object.values(KINDS).map((kind) => kind[2])]) {
      colours[name] = style.getPropertyValue(`--${name}`).trim();
    }
    samples.forEach((sample, index) => {
      const pen = sample.getContext("2d");
      pen.setTransform(2, 0, 0, 2, 0, 0);
      pen.clearRect(0, 0, 18, 14);
      mark(pen, KINDS[present[index]], 2, 16, 2, 10);
    });
  }

  function render() {
    const pen = canvas.getContext("2d"), ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    const top = stage.scrollTop, left = gutter();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const visible = rows.filter((row) => row.y + LANE > top + HEAD && row.y < top + height);
    visible.forEach((row) => lane(pen, row, row.y - top, width));
    pen.save();
    pen.beginPath(); pen.rect(left, HEAD, width - left, height - HEAD); pen.clip();
    for (const strips of [true, false]) for (const row of visible) bars(pen, row, row.y - top, strips, width);
    for (const item of shown) if (item.bad) alarm(pen, item, item.row.y - top, height);
    if (chosen && chosen.row && !chosen.bad) ring(pen, chosen, chosen.row.y - top, colours.focus);
    pen.restore();
    ruler(pen, width, left);
    if (!rows.length) { pen.fillStyle = colours.dim; pen.fillText("nothing is left by these filters", left + 8, HEAD + 16); }
  }

  function lane(pen, row, y, width) {
    pen.fillStyle = colours.line;
    pen.fillRect(0, y + LANE - 0.5, width, 0.5);
    const narrow = gutter() < 120;
    pen.fillStyle = colours.ink;
    pen.fillText(row.name, 10, y + (narrow ? 10 : 15));
    const pid = row.pids.length > 1 ? `${row.pids.length} processes` : row.pids[0] ? `pid ${row.pids[0]}` : "";
    pen.fillStyle = colours.dim;
    if (narrow) pen.fillText(pid, 10, y + 21);
    else { pen.textAlign = "right"; pen.fillText(pid, gutter() - 10, y + 15); pen.textAlign = "left"; }
  }

  function bars(pen, row, y, strips, width) {
    let last = "";
    row.named = 0;
    row.names = [];
    for (const item of row.items) {
      if ((item.kind === "lease") !== strips || item.to < view[0] || item.from > view[1]) continue;
      const x = xOf(item.from), end = Math.max(xOf(item.to), x + 2);
      const key = `${item.kind} ${x | 0} ${end | 0}`;
      if (key === last && !item.bad) continue; // it would be drawn over itself
      last = key;
      mark(pen, KINDS[item.kind], Math.max(x, -20), Math.min(end, width + 20), y + (strips ? 3 : 16), strips ? 11 : 10, item);
    }
    for (const each of row.names) name(pen, ...each);
  }

  function mark(pen, [, shape, colour], x, end, y, tall, item) {
    pen.fillStyle = pen.strokeStyle = colours[colour];
    pen.lineWidth = 1.5;
    const cx = !item ? (x + end) / 2 : shape === "refused" ? end : x, cy = y + tall / 2;
    const line = (...points) => { pen.beginPath(); points.forEach(([px, py], index) => index ? pen.lineTo(px, py) : pen.moveTo(px, py)); };
    if (shape === "strip") {
      pen.fillRect(x, y, Math.max(1.5, end - x - (item ? 1 : 0)), tall);
      if (!item) return;
      if (item.says.startsWith("over")) { pen.fillStyle = colours.kill; pen.fillRect(end - 1.5, y - 2, 1.5, tall + 4); }
      item.row.names.push([item, Math.max(x, gutter()) + 4, end, cy + 0.5]); // above whatever overlaps it
    } else if (shape === "bar" || shape === "refused") {
      pen.fillRect(x, y + (shape === "bar" && colour === "send" ? 3 : 0), end - x, tall - (colour === "send" ? 6 : 0));
      if (shape === "refused") { pen.beginPath(); pen.arc(cx, cy, 5, 0, 7); pen.fillStyle = colours.panel; pen.fill(); pen.stroke(); line([cx - 3.5, cy + 3.5], [cx + 3.5, cy - 3.5]); pen.stroke(); }
    } else if (shape === "hatch") {
      pen.strokeRect(x, y + 1.5, end - x, tall - 3);
      pen.lineWidth = 0.7;
      pen.beginPath();
      for (let at = x - (x % 5) + 5; at < end; at += 5) { pen.moveTo(at, y + 1.5); pen.lineTo(Math.max(x, at - 5), y + tall - 1.5); }
      pen.stroke();
    } else if (shape === "cross") {
      pen.lineWidth = 2;
      line([cx - 4, cy - 4], [cx + 4, cy + 4]); pen.stroke();
      line([cx - 4, cy + 4], [cx + 4, cy - 4]); pen.stroke();
    } else if (shape === "up") {
      line([cx, cy - 5], [cx + 4, cy + 3], [cx - 4, cy + 3]); pen.fill();
    } else if (shape === "diamond") {
      line([cx, cy - 5], [cx + 4, cy], [cx, cy + 5], [cx - 4, cy]); pen.fill();
    } else if (shape === "ring") {
      pen.beginPath(); pen.arc(cx, cy, 3.5, 0, 7); pen.stroke();
    } else {
      line([cx - 4, cy], [cx + 4, cy]); pen.stroke();
    }
  }

  /** A lease's name: within it, or where one job is looked at, and there is room until the next one, behind it. */
  function name(pen, item, x, end, y) {
    const row = item.row, until = (/ until \d+ ms/.exec(item.text) || [""])[0], short = `#${item.token}`;
    const texts = filter.job ? [short + until, short] : [`${item.job} ${short}${until}`, `${item.job} ${short}`, short];
    const fits = (from, to) => from >= row.named && texts.find((text) => pen.measureText(text).width < to - from - 4);
    let text = fits(x, end), at = x;
    pen.fillStyle = colours["lease-ink"];
    if (!text && filter.job) {
      const next = row.items.find((other) => other.kind === "lease" && other.from > item.from);
      at = end + 4;
      text = fits(at, next ? xOf(next.from) : canvas.clientWidth - 4);
      pen.fillStyle = colours.dim;
    }
    if (!text) return;
    pen.fillText(text, at, y);
    row.named = at + pen.measureText(text).width + 6;
  }

  function alarm(pen, item, y, height) {
    ring(pen, item, y, colours.red);
    pen.fillStyle = colours.red;
    pen.globalAlpha = 0.5;
    pen.fillRect(xOf(item.to) - 0.5, HEAD, 1, height);
    pen.globalAlpha = 1;
  }

  function ring(pen, item, y, colour) {
    const strip = item.kind === "lease", x = xOf(item.from), end = Math.max(xOf(item.to), x + 2);
    pen.strokeStyle = colour;
    pen.lineWidth = 2;
    pen.strokeRect(x - 4, y + (strip ? 1.5 : 14), end - x + 8, strip ? 14 : 14);
  }

  /** Two scales: the storm's own ms above, and what the queue's clock said then. */
  function ruler(pen, width, left) {
    pen.fillStyle = colours.panel;
    pen.fillRect(0, 0, width, HEAD);
    pen.fillStyle = colours.line;
    pen.fillRect(0, HEAD - 1, width, 1);
    pen.fillStyle = colours.dim;
    pen.fillText(left < 120 ? "ms" : "ms of the storm", 10, 12);
    if (source.clock.length) pen.fillText(left < 120 ? "its clock" : "ms of the queue's clock", 10, 28);
    const rough = (view[1] - view[0]) / Math.max(2, across() / 110), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
    for (let us = Math.ceil(Math.max(0, view[0]) / step) * step; us <= Math.min(view[1], 1.05 * source.end); us += step) {
      const x = xOf(us);
      if (x + 6 + pen.measureText(number.format(us / 1000)).width > width) break;
      pen.fillStyle = colours.line;
      pen.fillRect(x, 4, 1, HEAD - 8);
      pen.fillStyle = colours.ink;
      pen.fillText(number.format(us / 1000), x + 4, 12);
      pen.fillStyle = colours.dim;
      if (source.clock.length) pen.fillText(number.format(clockAt(us)), x + 4, 28);
    }
  }

  function clockAt(us) {
    let low = 0, high = source.clock.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (source.clock[middle][0] <= us) low = middle; else high = middle - 1;
    }
    return source.clock[low][1];
  }

  // --- one item

  function choose(item, bring) {
    chosen = item;
    details.classList.toggle("bad", Boolean(item && item.bad));
    if (!item) details.replaceChildren(h("p", { class: "dim" }, "Nothing is chosen."));
    else {
      const from = source.lanes[item.lane], span = item.to > item.from ? `${ms(item.from)} to ${item.open ? "its death" : ms(item.to)}` : ms(item.from);
      const when = source.clock.length ? `, ${number.format(clockAt(item.from))} ms on the queue's clock` : "";
      details.replaceChildren(
        h("p", null, h("b", null, KINDS[item.kind][0]), item.job ? ` of ${item.job}` : "", item.token === null ? "" : `, token ${item.token}`, item.bad ? h("b", { class: "invalid" }, ", wrong") : null),
        h("p", { class: "mono" }, item.text, "  → ", item.says),
        h("p", { class: "dim" }, `${from.name}${from.pid ? `, pid ${from.pid}` : ""}${from.says ? `, ${from.says}` : ""}; ms ${span}${when}`));
      if (bring) {
        const page = Math.floor(shown.indexOf(item) / PAGE);
        if (page !== pageNumber) list(page);
        const span2 = view[1] - view[0];
        if (item.from < view[0] || item.from > view[1]) setView(item.from - span2 / 2, item.from + span2 / 2);
        if (item.row.y - stage.scrollTop < HEAD || item.row.y + LANE - stage.scrollTop > canvas.clientHeight) stage.scrollTop = item.row.y - canvas.clientHeight / 2;
      }
    }
    [...body.rows].forEach((row) => row.setAttribute("aria-selected", String(Boolean(item) && row.dataset.item === String(item.index))));
    paint();
  }

  function hit(x, y) {
    const row = rows[Math.floor((y + stage.scrollTop - HEAD) / LANE)];
    if (!row || y < HEAD || x < gutter()) return null;
    const upper = y + stage.scrollTop - row.y < 15;
    let best = null, least = 7;
    for (const item of row.items) {
      const from = xOf(item.from), to = xOf(item.to);
      const away = Math.max(from - x, x - to, 0) + ((item.kind === "lease") === upper ? 0 : 3) + Math.min(1, (to - from) / 1e4);
      if (away <= least) { least = away; best = item; }
    }
    return best;
  }

  function list(page) {
    const pages = Math.max(1, Math.ceil(shown.length / PAGE));
    pageNumber = Math.min(pages - 1, Math.max(0, page));
    const part = shown.slice(pageNumber * PAGE, (pageNumber + 1) * PAGE);
    body.replaceChildren(...part.map((item) => h("tr", { "data-item": item.index, class: item.bad ? "bad" : null, "aria-selected": String(item === chosen) },
      h("td", { class: "num" }, h("button", { type: "button", click: () => choose(item, true) }, ms(item.from))),
      h("td", null, source.lanes[item.lane].name), h("td", null, KINDS[item.kind][0]), h("td", null, item.job), h("td", { class: "num" }, item.token === null ? "" : String(item.token)),
      h("td", { class: "mono", title: item.text }, item.text), h("td", { class: "mono", title: item.says }, item.says))));
    earlier.disabled = pageNumber === 0;
    later.disabled = pageNumber === pages - 1;
    where.textContent = shown.length ? `${number.format(pageNumber * PAGE + 1)}–${number.format(pageNumber * PAGE + part.length)} of ${number.format(shown.length)}` : "none";
  }

  // --- pointer and keys

  let drag = null;
  const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, view: [...view], moved: false }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (drag && Math.abs(event.clientX - drag.x) > 3) drag.moved = true;
    if (drag && drag.moved) {
      const by = (drag.x - event.clientX) / across() * (drag.view[1] - drag.view[0]);
      setView(drag.view[0] + by, drag.view[1] + by);
      return;
    }
    const item = hit(...place(event));
    tip.hidden = !item;
    if (item) {
      tip.textContent = `${KINDS[item.kind][0]}${item.job ? ` ${item.job}` : ""}${item.token === null ? "" : ` #${item.token}`}  →  ${item.says.slice(0, 90)}`;
      tip.style.left = `${Math.min(event.clientX + 14, innerWidth - 250)}px`;
      tip.style.top = `${event.clientY + 16}px`;
    }
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("pointerup", (event) => { if (drag && !drag.moved) choose(hit(...place(event)), true); drag = null; });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey || (document.activeElement === canvas && !event.shiftKey && Math.abs(event.deltaY) >= Math.abs(event.deltaX))) {
      event.preventDefault();
      zoom(Math.exp(Math.min(200, Math.max(-200, event.deltaY)) / 300), timeAt(place(event)[0]));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      pan((event.deltaX || event.deltaY) / 1000);
    }
  }, { passive: false });
  stage.addEventListener("scroll", paint);

  function beside(by) { // the item nearest in time, so many lanes away
    if (!rows.length) return null;
    const at = chosen ? chosen.from : view[0];
    const number = chosen ? Math.min(rows.length - 1, Math.max(0, rows.indexOf(chosen.row) + by)) : 0;
    return rows[number].items.reduce((best, item) => !best || Math.abs(item.from - at) < Math.abs(best.from - at) ? item : best, null);
  }
  const next = (by) => shown[chosen ? Math.min(shown.length - 1, Math.max(0, shown.indexOf(chosen) + by)) : 0] || null;
  const keys = {
    ArrowRight: () => choose(next(1), true), ArrowLeft: () => choose(next(-1), true), ArrowDown: () => choose(beside(1), true), ArrowUp: () => choose(beside(-1), true),
    Home: () => choose(shown[0] || null, true), End: () => choose(shown.at(-1) || null, true), PageDown: () => pan(0.8), PageUp: () => pan(-0.8),
    "+": () => zoom(1 / 1.6), "=": () => zoom(1 / 1.6), "-": () => zoom(1.6), "0": () => fit(), Escape: () => choose(null),
  };
  canvas.addEventListener("keydown", (event) => {
    if (keys[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); keys[event.key](); }
  });

  refilter();
  choose(items.find((item) => item.bad) || null);
  if (chosen) list(Math.floor(shown.indexOf(chosen) / PAGE));
  const redraw = () => { palette(); paint(); };
  repaint.add(redraw);
  let wide = 0;
  new ResizeObserver(() => { if (all.clientWidth !== wide) { wide = all.clientWidth; resize(); } }).observe(all);
  palette();
  if (chosen) focus(chosen); else fit();
  requestAnimationFrame(resize);
  return all;
}

function timelines() {
  const taken = new Set((data.failures || []).map((failure) => failure.timeline));
  const rest = (data.timelines || []).filter((_, index) => !taken.has(index));
  if (!rest.length) return null;
  const place = h("div"), drawn = []; // each is made once: it watches its size, and the colours, for as long as the page is open
  const at = (index) => (drawn[index] ??= timeline(rest[index]));
  const choice = h("select", { "aria-label": "which", change: (event) => place.replaceChildren(at(event.target.value)) },
    rest.map((each, index) => h("option", { value: index }, each.title)));
  place.append(at(0));
  return section("Timeline", rest.length > 1 ? null : rest[0].title, rest.length > 1 ? h("div", { class: "tools" }, choice) : null, place);
}

document.body.prepend(...[head(), failures(), unanswered(), layers(), coverage(), timelines(), lists()].filter(Boolean));
