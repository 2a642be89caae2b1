// Trees, built as they are opened: a node of paths is a range of the sorted objects.

const TREE = DATA.tree;
const FIRST_CHILDREN = 60;
const opened = {paths: new Map(), processes: new Map()};  // by key: open, or closed by hand
let sums = null;  // for each outcome, of the first n objects of TREE

function sumUp(view) {
  const all = countsByObject(view);
  sums = [0, 1, 2].map(() => new Float64Array(TREE.length + 1));
  TREE.forEach((object, at) => { for (const outcome of [0, 1, 2]) sums[outcome][at + 1] = sums[outcome][at] + all[object][outcome]; });
}

function callsOf(from, to) { return sums.map(one => one[to] - one[from]); }

/** The children of the node that `from` to `to` have in common up to `length` characters. */
function childrenOf({from, to, length}) {
  const children = [];
  let at = from;
  while (at < to) {
    const text = OBJECTS[TREE[at]].text;
    if (text.length <= length) { ++at; continue; }  // the node itself
    let end = text.indexOf("/", length + 1);
    if (end < 0) end = text.length;
    const head = text.slice(0, end);
    let until = at + 1;
    while (until < to && beneath(OBJECTS[TREE[until]].text, head)) ++until;
    const calls = callsOf(at, until);
    if (sum(calls)) children.push(joined({from: at, to: until, length: end, path: head, label: head.slice(length), calls}));
    at = until;
  }
  return children;
}

/** Directories with one child and no call of their own stand in one line with it. */
function joined(node) {
  for (;;) {
    const first = OBJECTS[TREE[node.from]].text, last = OBJECTS[TREE[node.to - 1]].text;
    if (first.length <= node.length) break;
    const end = first.indexOf("/", node.length + 1);
    const head = first.slice(0, end < 0 ? first.length : end);
    if (!beneath(last, head)) break;
    node.label += head.slice(node.length);
    node.length = head.length;
    node.path = head;
  }
  node.leaf = OBJECTS[TREE[node.to - 1]].text.length <= node.length;
  return node;
}

function twist(kind, key, open, redraw) {
  return el("button", {type: "button", class: "twist", "aria-expanded": String(open), "aria-label": open ? "close" : "open",
    click: () => { opened[kind].set(key, !open); redraw(); }}, "\u203a");
}

function pathMarks(node) {
  const marks = new Set();
  for (let at = node.from; at < node.to && OBJECTS[TREE[at]].text.length <= node.length; ++at) {
    const {kind, operations} = OBJECTS[TREE[at]];
    if (kind === SOCKET) marks.add("socket");
    if (kind === BENEATH) marks.add("\u2026 not listed one by one");
    OPERATIONS.forEach((one, bit) => { if (operations >> bit & 1) marks.add(one); });
  }
  return [...marks].join(" ");
}

function pathNode(node, depth, budget) {
  const children = node.leaf ? [] : childrenOf(node);
  const wanted = opened.paths.get(node.path);
  const open = children.length > 0 && (wanted === undefined ? depth < 1 || children.length <= budget.left : wanted);
  if (open && wanted === undefined) budget.left -= children.length;
  const row = el("div", {class: "node"},
    children.length ? twist("paths", node.path, open, () => drawPaths(currentView)) : el("span", {class: "twist"}),
    el("button", {type: "button", class: "node-name", title: "only calls on it" + (children.length ? " and beneath" : ""),
      click: () => { FILTER.path = FILTER.path === node.path ? null : node.path; changed(); }}, name(node.label, {longest: 90})),
    el("span", {class: "quiet ops"}, pathMarks(node)), el("span", {class: "spring"}), tallies(node.calls));
  if (!open) return el("li", null, row);
  const limit = (opened.paths.get("more " + node.path) || FIRST_CHILDREN);
  return el("li", null, row, el("ul", null, children.slice(0, limit).map(one => pathNode(one, depth + 1, budget)),
    children.length > limit ? el("li", null, el("button", {type: "button", class: "more", click: () => { opened.paths.set("more " + node.path, limit + 300); drawPaths(currentView); }},
      "Show " + count(Math.min(300, children.length - limit)) + " more of " + count(children.length))) : null));
}

function drawPaths(view) {
  sumUp(view);
  const place = document.getElementById("paths");
  const others = [];
  const all = countsByObject(view);
  OBJECTS.forEach((object, at) => { if (object.kind === ABSTRACT && sum(all[at])) others.push([object, all[at]]); });
  const top = {from: 0, to: TREE.length, length: 0};
  const budget = {left: 18};
  const nodesOf = TREE.length ? childrenOf(top).map(one => pathNode(one, 0, budget)) : [];
  const names = others.slice(0, 200).map(([object, calls]) => el("li", null, el("div", {class: "node"}, el("span", {class: "twist"}), name(object.text, {longest: 90}),
    el("span", {class: "quiet ops"}, "abstract socket"), el("span", {class: "spring"}), tallies(calls))));
  if (!nodesOf.length && !names.length) return put(place, el("p", {class: "hint pad"}, filtering() ? "None among these calls." : "No path was contested."));
  put(place, el("ul", {class: "tree"}, nodesOf, names));
}

PROCESSES.forEach((process, at) => { if (at > 0 && process.parent >= 0) PROCESSES[process.parent].children.push(at); });

function processNode(at, calls, budget) {
  const process = PROCESSES[at];
  const children = process.children.filter(one => calls.has(one));
  const wanted = opened.processes.get(at);
  const open = children.length > 0 && (wanted === undefined ? budget.left > 0 : wanted);
  budget.left -= 1;
  const programs = process.programs.map(baseName);
  const own = calls.get(at).own;
  const row = el("div", {class: "node"},
    children.length ? twist("processes", at, open, () => drawProcesses(currentView)) : el("span", {class: "twist"}),
    el("button", {type: "button", class: "node-name", title: process.programs.slice(0, 4).map(one => shown(one.slice(0, 200))).join("\n") + "\nonly calls of it and what it started",
      click: () => { FILTER.process = FILTER.process === at ? null : at; changed(); }},
    programs.length ? programs.slice(0, 4).map((one, index) => [index ? " \u2192 " : "", name(one, {longest: 40})]) : "?"),
    el("span", {class: "quiet"}, " " + process.pid), el("span", {class: "spring"}),
    el("span", {class: "quiet ops"}, process.last > process.first ? span(process.last - process.first) : ""), tallies(own));
  if (!open) return el("li", null, row);
  const limit = opened.processes.get("more " + at) || FIRST_CHILDREN;
  return el("li", null, row, el("ul", null, children.slice(0, limit).map(one => processNode(one, calls, budget)),
    children.length > limit ? el("li", null, el("button", {type: "button", class: "more", click: () => { opened.processes.set("more " + at, limit + 300); drawProcesses(currentView); }},
      "Show " + count(Math.min(300, children.length - limit)) + " more of " + count(children.length))) : null));
}

function drawProcesses(view) {
  const own = filtering() ? countsByKind(view, "process") : new Map(PROCESSES.map((one, at) => [at, one.calls]).slice(1));
  const calls = new Map();  // of those that asked, and of the ones above them
  for (const [at, tally] of own) {
    if (at === 0) continue;
    for (let above = at; above >= 0 && !calls.has(above); above = PROCESSES[above].parent) calls.set(above, {own: own.get(above) || [0, 0, 0]});
    calls.get(at).own = tally;
  }
  const tops = [...calls.keys()].filter(at => PROCESSES[at].parent < 0).sort((one, other) => one - other);
  const place = document.getElementById("processes");
  if (!tops.length) return put(place, el("p", {class: "hint pad"}, filtering() ? "None among these calls." : "No process asked."));
  const limit = opened.processes.get("more") || FIRST_CHILDREN;
  const budget = {left: 40};
  put(place, el("ul", {class: "tree"}, tops.slice(0, limit).map(one => processNode(one, calls, budget))),
    tops.length > limit ? el("button", {type: "button", class: "more", click: () => { opened.processes.set("more", limit + 300); drawProcesses(currentView); }},
      "Show " + count(Math.min(300, tops.length - limit)) + " more of " + count(tops.length)) : null);
}
