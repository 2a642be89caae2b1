// Lists with counts: rules and hosts. A click looks at that one only.

const FIRST_LINES = 10;
const lines_shown = {};

function sum(calls) { return calls[0] + calls[1] + calls[2]; }

/** A bar whose length is the share of all, coloured by what became of the calls. */
function meter(calls, most) {
  const whole = sum(calls);
  const bar = el("span", {class: "meter", "aria-hidden": "true"});
  for (const outcome of [REFUSED, WOULD, ALLOWED]) {
    if (!calls[outcome]) continue;
    const part = el("i", {class: OUTCOMES[outcome].css});
    part.style.width = Math.max(1.5, calls[outcome] / whole * Math.sqrt(whole / most) * 100) + "%";
    bar.append(part);
  }
  return bar;
}

function tallies(calls) {
  return el("span", {class: "tallies"}, [REFUSED, WOULD, ALLOWED].map(outcome => calls[outcome]
    ? el("span", {class: "tally " + OUTCOMES[outcome].css, title: OUTCOMES[outcome].label.toLowerCase()}, count(calls[outcome])) : null));
}

function drawLines(id, lines, empty) {
  const place = document.getElementById(id);
  if (!lines.length) return put(place, el("p", {class: "hint pad"}, empty));
  lines.sort((one, other) => (other.calls[1] + other.calls[2]) - (one.calls[1] + one.calls[2]) || sum(other.calls) - sum(one.calls));
  const most = Math.max(...lines.slice(0, 5000).map(one => sum(one.calls)));
  const limit = lines_shown[id] || FIRST_LINES;
  put(place, el("ul", {class: "lines"}, lines.slice(0, limit).map(one => el("li", null,
    el("button", {type: "button", class: "line", title: one.title || null, click: one.click},
      el("span", {class: "line-name"}, one.label, one.more ? el("span", {class: "quiet"}, " " + one.more) : null), meter(one.calls, most), tallies(one.calls))))),
    lines.length > limit ? el("button", {type: "button", class: "more", click: () => { lines_shown[id] = limit + 200; drawLines(id, lines, empty); }},
      "Show " + count(Math.min(200, lines.length - limit)) + " more of " + count(lines.length)) : null);
}

function drawRules(view) {
  const byRule = filtering() ? countsByKind(view, "rule") : new Map(RULES.map(one => [one.name, one.calls]));
  drawLines("rules", [...byRule].map(([rule, calls]) => ({calls, click: () => { FILTER.rule = FILTER.rule === rule ? null : rule; changed(); },
    label: rule === "default" || rule === "" ? el("i", null, ruleText(rule)) : name(rule, {longest: 60})})), "No call was decided.");
}

function drawHosts(view) {
  const hosts = new Map();
  const all = countsByObject(view);
  OBJECTS.forEach((object, at) => {
    const calls = all[at];
    if (object.kind !== HOST || !sum(calls)) return;
    let host = hosts.get(object.host);
    if (!host) hosts.set(object.host, host = {calls: [0, 0, 0], ports: new Set(), addresses: new Set()});
    calls.forEach((number, outcome) => { host.calls[outcome] += number; });
    const colon = object.text.lastIndexOf(":");
    host.ports.add(object.text.slice(colon + 1));
    host.addresses.add(object.text.slice(0, colon));
  });
  drawLines("hosts", [...hosts].map(([host, {calls, ports, addresses}]) => {
    const some = [...ports].sort((one, other) => parseInt(one, 10) - parseInt(other, 10));
    const others = [...addresses].filter(one => one !== host && one !== "[" + host + "]");
    return {calls, label: name(host, {longest: 60}), more: ":" + some.slice(0, 4).join(", :") + (some.length > 4 ? " and " + (some.length - 4) + " more" : ""),
      title: others.length ? others.slice(0, 20).join(" ") : null, click: () => { FILTER.host = FILTER.host === host ? null : host; changed(); }};
  }), filtering() ? "None among these calls." : "No host was asked for, or only such as the kernel decides alone.");
}
