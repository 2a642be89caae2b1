// What was refused, or would have been: by rule and object, with what would allow it.

const FIRST_DENIALS = 12;
let denialsShown = FIRST_DENIALS;

function ruleLink(rule) {
  return el("button", {type: "button", class: "link", title: "only calls that this rule decided",
    click: event => { event.stopPropagation(); FILTER.rule = rule; changed(); }}, rule === "default" || rule === "" ? ruleText(rule) : name(rule, {longest: 60}));
}

function why(denial) {
  const by = {person: "a person", program: "a program that was asked", grant: "an earlier answer", timeout: "nobody answered in time",
    failure: "callgate could not judge it"}[denial.by];
  return [
    denial.rule === "default" ? "No rule allows it (" : denial.rule === "" ? "By no rule" : "Rule ",
    denial.rule === "" ? null : ruleLink(denial.rule), denial.rule === "default" ? ")" : null,
    denial.reason ? [": ", name(denial.reason, {longest: 120, font: ""})] : null,
    by ? " \u00b7 " + by : null,
    denial.outcome === REFUSED && denial.verdict === "ask" && !by && !denial.reason ? " \u00b7 no one to ask" : null,
    denial.error ? [" \u00b7 ", el("span", {class: "mono"}, denial.error)] : null,
  ];
}

function denialCard(denial) {
  const object = OBJECTS[denial.object];
  const when = denial.count > 1 ? moment(denial.first) + " to " + moment(denial.last) : "at " + moment(denial.first);
  return el("article", {class: "denial " + OUTCOMES[denial.outcome].css},
    el("div", {class: "denial-line"},
      el("span", {class: "op"}, denial.operation),
      el("h3", null, name(objectText(object), {whole: true, tag: "span"})),
      el("span", {class: "times", title: plural(denial.count, "call")}, "\u00d7" + count(denial.count))),
    el("div", {class: "denial-line"}, el("p", {class: "why"}, why(denial)),
      el("p", {class: "who"}, name(baseName(denial.program) || "?", {longest: 60}), " \u00b7 ", when, " \u00b7 record " + count(denial.sequence))),
    el("div", {class: "fix"}, el("div", {class: "fix-texts"}, denial.fix
      ? [el("span", {class: "fix-label"}, denial.outcome === REFUSED ? "Allow with" : "Would allow"), name(denial.fix, {longest: 240, whole: true, tag: "code"})]
      : el("span", {class: "fix-label none"}, denial.note ? "No option: " : "No option would allow it"),
    denial.also ? el("span", {class: "fix-note"}, "and, where no other rule allows it, ", name(denial.also, {longest: 240, whole: true, tag: "code"})) : null,
    denial.note ? el("span", {class: "fix-note"}, denial.note) : null),
    denial.fix ? copyButton(denial.fix) : null));
}

function drawDenials(view) {
  const place = document.getElementById("denials");
  const left = DENIALS.filter(one => denialPasses(one, view)).sort((one, other) => one.outcome - other.outcome || other.count - one.count || one.first - other.first);
  const parts = [];
  for (const outcome of [REFUSED, WOULD]) {
    const some = left.filter(one => one.outcome === outcome);
    if (!some.length) continue;
    const shownHere = some.slice(0, denialsShown);
    parts.push(el("div", {class: "card"},
      el("div", {class: "head"}, el("h2", null, outcome === REFUSED ? "Denied" : "Would be denied"),
        el("span", {class: "badge " + OUTCOMES[outcome].css}, count(some.length)),
        el("span", {class: "spring"}),
        el("span", {class: "hint"}, outcome === REFUSED ? "Options of callgate run, for the next time" : "These calls went on: nothing was enforced.")),
      el("div", {class: "denial-list"}, shownHere.map(denialCard)),
      some.length > shownHere.length ? el("button", {type: "button", class: "more", click: () => { denialsShown += 100; drawDenials(currentView); }},
        "Show " + count(Math.min(100, some.length - shownHere.length)) + " more of " + count(some.length)) : null));
  }
  if (!parts.length && !filtering())
    parts.push(el("div", {class: "card calm"}, el("b", null, "Nothing was denied."), el("span", {class: "quiet"}, DATA.totals[ALLOWED] ? " Every contested call was allowed by the rules." : " No call was contested.")));
  put(place, parts);
}
