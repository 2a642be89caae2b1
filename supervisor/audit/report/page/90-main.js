// The bar of filters, and putting it all on the page.

let currentView = null;

function chip(label, clear) {
  return el("button", {type: "button", class: "chip on", title: "remove this filter", click: () => { clear(); changed(); }}, label, el("span", {"aria-hidden": "true"}, " \u00d7"));
}

function drawBar() {
  const chips = [];
  const chipOf = (key, ...label) => { if (FILTER[key] !== null) chips.push(chip(label, () => { FILTER[key] = null; })); };
  chipOf("rule", "rule ", FILTER.rule === null ? "" : name(ruleText(FILTER.rule), {longest: 60}));
  chipOf("host", "host ", FILTER.host === null ? "" : name(FILTER.host, {longest: 60}));
  chipOf("path", "beneath ", FILTER.path === null ? "" : name(FILTER.path, {longest: 80}));
  if (FILTER.process !== null) chipOf("process", "process " + PROCESSES[FILTER.process].pid + " and what it started");
  if (FILTER.from !== null) chips.push(chip(moment(FILTER.from) + " to " + moment(FILTER.to), () => { FILTER.from = FILTER.to = null; }));
  if (filtering()) chips.push(el("button", {type: "button", class: "link", click: clearFilter}, "Clear all"));
  put(document.getElementById("chips"), chips);
  for (const button of document.getElementById("outcomes").children)
    button.setAttribute("aria-pressed", String(FILTER.outcomes.has(Number(button.dataset.outcome))));
  document.getElementById("operation").value = FILTER.operation;
  const total = sum(currentView.counts.total), all = sum(DATA.totals);
  document.getElementById("found").textContent = filtering() ? count(total) + " of " + plural(all, "call") : plural(all, "call");
}

function clearFilter() {
  Object.assign(FILTER, {text: "", outcomes: new Set([ALLOWED, REFUSED, WOULD]), operation: "", rule: null, host: null, path: null, process: null, from: null, to: null});
  document.getElementById("search").value = "";
  changed();
}

function makeBar() {
  const search = document.getElementById("search");
  let waiting = 0;
  search.addEventListener("input", () => {
    FILTER.text = search.value;
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => changed());
  });
  document.addEventListener("keydown", event => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) return;
    event.preventDefault();
    search.focus();
  });
  put(document.getElementById("outcomes"), [REFUSED, WOULD, ALLOWED].filter(one => one !== WOULD || DATA.totals[WOULD]).map(outcome =>
    el("button", {type: "button", class: "toggle " + OUTCOMES[outcome].css, "data-outcome": outcome, click: () => {
      if (!FILTER.outcomes.delete(outcome)) FILTER.outcomes.add(outcome);
      if (!FILTER.outcomes.size || (FILTER.outcomes.size === 1 && FILTER.outcomes.has(WOULD) && !DATA.totals[WOULD])) FILTER.outcomes = new Set([ALLOWED, REFUSED, WOULD]);
      changed();
    }}, el("i"), OUTCOMES[outcome].label)));
  const present = new Set(KINDS.map(kind => kind.operation));
  const operation = document.getElementById("operation");
  put(operation, el("option", {value: ""}, "All operations"), OPERATIONS.filter(one => present.has(one)).map(one => el("option", {value: one}, one)));
  operation.addEventListener("change", () => { FILTER.operation = operation.value; changed(); });
}

function changed() {
  currentView = apply();
  denialsShown = FIRST_DENIALS;
  drawBar();
  drawDenials(currentView);
  drawRules(currentView);
  drawHosts(currentView);
  drawPaths(currentView);
  drawProcesses(currentView);
  drawCalls();
  document.dispatchEvent(new Event("filter"));
}

function makeTheme() {
  const button = document.getElementById("theme"), order = ["system", "light", "dark"];
  let now = "system";
  button.addEventListener("click", () => {
    now = order[(order.indexOf(now) + 1) % order.length];
    if (now === "system") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.setAttribute("data-theme", now);
    button.textContent = "Theme: " + now;
  });
}

// On paper there is nothing to scroll: the first calls as a table, and all denials.
const PRINTED = 200;
window.addEventListener("beforeprint", () => {
  denialsShown = Infinity;
  drawDenials(currentView);
  const rows = [...currentView.rows.subarray(0, PRINTED)].map(call => CALLS.kind[call] < 0 ? eventCells(call) : callCells(call));
  put(LIST.inner, rows, currentView.rows.length > PRINTED ? el("p", {class: "hint pad"}, "The first " + PRINTED + " of " + plural(currentView.rows.length, "line") + "; the page on a screen has more.") : null);
  LIST.box.classList.add("printed");
});
window.addEventListener("afterprint", () => {
  LIST.box.classList.remove("printed");
  denialsShown = FIRST_DENIALS;
  changed();
});

document.getElementById("print").addEventListener("click", () => window.print());
document.getElementById("details").addEventListener("click", event => { if (event.target === event.currentTarget) event.currentTarget.close(); });
makeTheme();
drawHero();
drawTiles();
drawTimeline();
makeBar();
makeList();
changed();
drawFooter();
document.documentElement.dataset.ready = "yes";
performance.mark("ready");
