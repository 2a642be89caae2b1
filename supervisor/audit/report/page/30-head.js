// What ran, how it ended, and the counts.

function fact(term, ...value) {
  return el("div", {class: "fact"}, el("dt", null, term), el("dd", null, value));
}

function commandLine(run) {
  // As a shell would read it, where nothing is hidden; else by its parts.
  const quoted = run.command.map(one => /^[A-Za-z0-9_@%+=:,.\/-]+$/.test(one) ? one : "'" + one.replaceAll("'", "'\\''") + "'");
  return quoted.join(" ");
}

function runCard(run) {
  const ended = run.ended !== 0;
  const tone = !ended ? "unknown" : run.well ? "good" : "bad";
  const outcome = {exited: "Exited"}[run.outcome] || run.outcome;
  return el("div", {class: "card hero tone-" + tone},
    el("div", {class: "hero-line"},
      el("span", {class: "pill " + tone}, outcome),
      run.mode === "audit" ? el("span", {class: "pill audit", title: "the rules' verdicts are on record, nothing was refused"}, "audit mode: nothing was enforced") : null,
      run.degraded.map(one => el("span", {class: "pill degraded", title: "a protection that this kernel or these options do not give"}, "degraded: ", name(one, {longest: 80})))),
    el("h1", {class: "command"}, run.command.length ? name(commandLine(run), {longest: 400, whole: true, tag: "code"}) : "A run whose start is not on record"),
    el("dl", {class: "facts"},
      run.started ? fact("Started", clock(run.started, 0)) : null,
      ended ? fact("Took", span(run.duration_ms * 1000)) : null,
      run.workdir ? fact("Work directory", name(run.workdir, {longest: 80, whole: true})) : null,
      run.profiles.length ? fact("Profiles", run.profiles.map((one, at) => [at ? ", " : "", name(one)])) : null,
      run.rules ? fact("Rules", el("span", {class: "mono", title: "SHA-256 of the rule set: " + run.rules}, run.rules.slice(0, 12))) : null,
      run.kernel ? fact("Kernel", name(run.kernel, {longest: 60}), " \u00b7 Landlock ABI " + run.landlock) : null));
}

function drawHero() {
  put(document.getElementById("hero"), DATA.runs.map(runCard),
    DATA.runs.length === 0 ? el("p", {class: "card notice"}, "This log holds no run.") : null,
    DATA.cut.runs ? el("p", {class: "hint"}, plural(DATA.cut.runs, "record") + " of further runs are not told apart.") : null);
  const names = DATA.runs.map(run => run.name).join(", ");
  put(document.getElementById("run-name"), nodes((DATA.runs.length > 1 ? "runs " : "run ") + (shortened(names, 60) || [names]).join("\u2026")));
}

function tile(number, label, css, only) {
  return el("button", {type: "button", class: "tile " + css + (number ? "" : " zero"), disabled: only === null,
    title: only === null ? null : "show only these", click: () => {
      FILTER.outcomes = new Set([only]);
      changed();
      document.getElementById("bar").scrollIntoView({block: "start"});
    }}, el("b", null, count(number)), el("span", null, label));
}

function drawTiles() {
  const [allowed, refused, would] = DATA.totals;
  const hosts = new Set(OBJECTS.filter(one => one.kind === HOST).map(one => one.host));
  const paths = OBJECTS.filter(one => one.kind === PATH || one.kind === SOCKET).length;
  put(document.getElementById("tiles"),
    tile(refused, refused === 1 ? "call denied" : "calls denied", "refused", REFUSED),
    AUDITED || would ? tile(would, "would be denied", "would", WOULD) : null,
    tile(allowed, allowed === 1 ? "call allowed" : "calls allowed", "allowed", ALLOWED),
    tile(paths, paths === 1 ? "path" : "paths", "neutral", null),
    tile(hosts.size, hosts.size === 1 ? "host" : "hosts", "neutral", null),
    tile(PROCESSES.length - 1, PROCESSES.length === 2 ? "process asked" : "processes asked", "neutral", null));
}

function drawFooter() {
  const {cut} = DATA;
  const left = [];
  if (cut.allowed) left.push(count(cut.allowed) + " allowed ones");
  if (cut.not_allowed) left.push(count(cut.not_allowed) + " that were not allowed");
  if (cut.events) left.push(plural(cut.events, "event"));
  const notes = [];
  if (left.length) notes.push("Left out of the list of calls: " + left.join(", ") + ". They are in the counts, the timeline and the trees.");
  if (cut.objects) notes.push("There are more objects than are listed: " + plural(cut.objects, "call") + " on others count for the directory they are in, or not in the trees at all.");
  if (cut.denials) notes.push("Left out of the denials: " + plural(cut.denials, "call") + " of further kinds.");
  if (cut.processes) notes.push("Left out of the processes: " + plural(cut.processes, "call") + " by further ones.");
  if (cut.rules) notes.push("Left out of the rules: " + plural(cut.rules, "call") + " that further ones decided.");
  if (DATA.bad_lines) notes.push("Of the log, " + plural(DATA.bad_lines, "line") + " could not be read as records.");
  if (DATA.torn) notes.push("The log's last line is unfinished: the run goes on, or a crash tore it.");
  put(document.getElementById("footer"),
    notes.length ? el("ul", {class: "notes"}, notes.map(one => el("li", null, one))) : null,
    el("p", null, plural(DATA.records, "record"), " in ", name(DATA.file, {longest: 120, whole: true})),
    DATA.head ? el("p", null, "Head ", el("span", {class: "mono wrap-any"}, "sha256:", nodes(DATA.head)), " as the log has it; ",
      el("code", null, "callgate audit verify"), " says whether the log is what was written.") : null,
    el("p", null, "Only calls that the rules contest are on record (", el("code", null, "--record"), "); the rest the kernel decides alone. Made by callgate " + DATA.by + ", " + clock(DATA.made * 1e6, 0) + "."));
  const hidden = cut.allowed + cut.not_allowed + cut.events;
  put(document.getElementById("calls-cut"), hidden ? count(CALLS.length) + " listed, " + count(hidden) + " only counted" : "");
}
