// The data of the page, and what of it a filter leaves.

const DATA = JSON.parse(document.getElementById("data").textContent);
const STRINGS = DATA.strings;
const ALLOWED = 0, REFUSED = 1, WOULD = 2;
const OUTCOMES = [
  {name: "allowed", label: "Allowed", css: "allowed"},
  {name: "denied", label: "Denied", css: "refused"},
  {name: "would", label: "Would be denied", css: "would"},
];
const OPERATIONS = ["read", "modify", "create", "delete", "metadata", "execute", "connect", "bind"];
const PATH = 0, SOCKET = 1, ABSTRACT = 2, HOST = 3, BENEATH = 4, OTHERS = 5;
const AUDITED = DATA.runs.some(run => run.mode === "audit");

const OBJECTS = DATA.objects.map(([text, second, host, kind, operations, allowed, refused, would]) =>
  ({text: text < 0 ? "" : STRINGS[text], second: second < 0 ? "" : STRINGS[second], host: host < 0 ? "" : STRINGS[host],
    kind, operations, calls: [allowed, refused, would]}));
const KINDS = DATA.kinds.map(([outcome, verdict, operation, rule, by, mechanism, error, reason, program, process, operations]) =>
  ({outcome, verdict: STRINGS[verdict], operation: STRINGS[operation], rule: STRINGS[rule], by: STRINGS[by],
    mechanism: STRINGS[mechanism], error: STRINGS[error], reason: STRINGS[reason], program: STRINGS[program], process,
    operations: OPERATIONS.filter((_, bit) => operations >> bit & 1)}));
const PROCESSES = DATA.processes.map(([pid, parentPid, parent, run, programs, first, last, allowed, refused, would]) =>
  ({pid, parentPid, parent, run, programs: programs.map(one => STRINGS[one]), first, last, calls: [allowed, refused, would],
    children: []}));
const DENIALS = DATA.denials.map(([outcome, verdict, operation, rule, by, error, reason, program, object, times, sequence,
  first, last, fix, also, note]) =>
  ({outcome, verdict: STRINGS[verdict], operation: STRINGS[operation], rule: STRINGS[rule], by: STRINGS[by],
    error: STRINGS[error], reason: STRINGS[reason], program: STRINGS[program], object, count: times, sequence, first, last,
    fix, also, note}));
const RULES = DATA.rules.map(([text, allowed, refused, would]) => ({name: STRINGS[text], calls: [allowed, refused, would]}));

// Columns; time and sequence stand in the data as steps from the call before.
const CALLS = (() => {
  const {time, sequence, kind, object, count} = DATA.calls;
  for (let at = 1; at < time.length; ++at) {
    time[at] += time[at - 1];
    sequence[at] += sequence[at - 1];
  }
  return {time: Float64Array.from(time), sequence, kind: Int32Array.from(kind), object: Int32Array.from(object),
    count: Float64Array.from(count), length: time.length};
})();
delete DATA.calls;

function verdictText(one) {
  if (one.outcome === ALLOWED) return "allow";
  if (one.outcome === WOULD) return "would " + one.verdict;
  return one.verdict === "ask" ? "ask, denied" : one.verdict;
}

function baseName(path) {
  return path.slice(path.lastIndexOf("/") + 1) || path;
}

function ruleText(rule) {
  return rule === "" ? "no rule" : rule === "default" ? "the default" : rule;
}

/** What a call was about, in one line. */
function objectText(object) {
  if (object.kind === OTHERS) return "(not listed one by one)";
  const text = object.kind === BENEATH ? (object.text === "/" ? "" : object.text) + "/\u2026" : object.text || "(no name)";
  const named = object.kind === HOST && object.host && !object.text.includes(object.host) ? text + " (" + object.host + ")" : text;
  return object.second ? named + " \u2192 " + object.second : named;
}

const LOWER = {};  // texts in lower case, made when first searched
function lower(key, make) {
  return LOWER[key] || (LOWER[key] = make());
}

/** The filter; everything that can be clicked changes it, and `changed` shows what it leaves. */
const FILTER = {text: "", outcomes: new Set([ALLOWED, REFUSED, WOULD]), operation: "", rule: null, host: null, path: null,
  process: null, from: null, to: null};

function filtering() {
  return FILTER.text.trim() !== "" || FILTER.outcomes.size !== OUTCOMES.length || FILTER.operation !== "" ||
    [FILTER.rule, FILTER.host, FILTER.path, FILTER.process, FILTER.from].some(one => one !== null);
}

function beneath(path, top) {
  return path === top || path.startsWith(top === "/" ? "/" : top + "/");
}

function objectPasses(object) {
  if (FILTER.host !== null && object.host !== FILTER.host) return false;
  if (FILTER.path !== null && !(object.text.startsWith("/") && beneath(object.text, FILTER.path))) return false;
  return true;
}

function descendants(process) {
  const all = new Set([process]);
  for (const one of all) for (const child of PROCESSES[one].children) all.add(child);
  return all;
}

function kindPasses(kind, processes) {
  return FILTER.outcomes.has(kind.outcome) && (FILTER.operation === "" || kind.operation === FILTER.operation) &&
    (FILTER.rule === null || kind.rule === FILTER.rule) && (processes === null || processes.has(kind.process));
}

/** For each of `texts`: 1 where it holds `word`. */
function holding(texts, word) {
  return Uint8Array.from(texts, text => text.includes(word) ? 1 : 0);
}

/** The calls that pass, and their counts by object, rule and process. */
function apply() {
  const processes = FILTER.process === null ? null : descendants(FILTER.process);
  const objects = Uint8Array.from(OBJECTS, one => objectPasses(one) ? 1 : 0);
  const kinds = Uint8Array.from(KINDS, one => kindPasses(one, processes) ? 1 : 0);
  const words = FILTER.text.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = words.map(word => ({
    objects: holding(lower("objects", () => OBJECTS.map(one => shown(one.text + " " + one.second + " " + one.host).toLowerCase())), word),
    kinds: holding(lower("kinds", () => KINDS.map(one => shown([one.verdict, verdictText(one), one.operation, one.rule || "no rule",
      one.reason, one.error, one.program, one.by, PROCESSES[one.process].pid].join("\n")).toLowerCase())), word),
  }));
  const events = FILTER.outcomes.size === OUTCOMES.length && words.length === 0 && FILTER.operation === "" &&
    [FILTER.rule, FILTER.host, FILTER.path, FILTER.process].every(one => one === null);
  const rows = new Int32Array(CALLS.length);
  const counts = {objects: new Float64Array(OBJECTS.length * 3), kinds: new Float64Array(KINDS.length), total: [0, 0, 0]};
  let length = 0;
  next: for (let at = 0; at < CALLS.length; ++at) {
    const kind = CALLS.kind[at], object = CALLS.object[at];
    if (FILTER.from !== null && (CALLS.time[at] < FILTER.from || CALLS.time[at] >= FILTER.to)) continue;
    if (kind < 0) {
      if (events) rows[length++] = at;
      continue;
    }
    if (!kinds[kind] || !objects[object]) continue;
    for (const hit of hits) if (!hit.kinds[kind] && !hit.objects[object]) continue next;
    rows[length++] = at;
    counts.kinds[kind] += CALLS.count[at];
    counts.objects[object * 3 + KINDS[kind].outcome] += CALLS.count[at];
    counts.total[KINDS[kind].outcome] += CALLS.count[at];
  }
  return {rows: rows.subarray(0, length), counts, words, processes, objects};
}

/** Counts for the panels: of the whole log where nothing is filtered, else of the calls that pass. */
function countsByObject(view) {
  if (!filtering()) return OBJECTS.map(one => one.calls);
  return OBJECTS.map((_, at) => Array.from(view.counts.objects.subarray(at * 3, at * 3 + 3)));
}

function addTo(map, key, outcome, number) {
  let calls = map.get(key);
  if (!calls) map.set(key, calls = [0, 0, 0]);
  calls[outcome] += number;
}

/** By `key` of a kind: "rule" or "process". */
function countsByKind(view, key) {
  const map = new Map();
  view.counts.kinds.forEach((number, at) => { if (number) addTo(map, KINDS[at][key], KINDS[at].outcome, number); });
  return map;
}

function denialPasses(denial, view) {
  const object = OBJECTS[denial.object];
  if (!FILTER.outcomes.has(denial.outcome) || !view.objects[denial.object]) return false;
  if (FILTER.operation !== "" && denial.operation !== FILTER.operation) return false;
  if (FILTER.rule !== null && denial.rule !== FILTER.rule) return false;
  if (FILTER.from !== null && (denial.last < FILTER.from || denial.first >= FILTER.to)) return false;
  if (FILTER.process !== null && !view.counts.objects[denial.object * 3 + denial.outcome]) return false;
  const text = shown([object.text, object.second, object.host, denial.operation, denial.rule || "no rule", denial.reason,
    denial.error, denial.program, verdictText(denial), denial.by].join("\n")).toLowerCase();
  return view.words.every(word => text.includes(word) || (/^\d+$/.test(word) && view.counts.objects[denial.object * 3 + denial.outcome]));
}
