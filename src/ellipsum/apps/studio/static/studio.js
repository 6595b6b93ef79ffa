// The form of a table: the forecast follows the input. No script makes a release.
"use strict";

const form = document.getElementById("desk");
const desk = form.getAttribute("data-desk"); // form.dataset is the field with the name dataset
const field = (name) => document.getElementById(name);
const epsilon = field("epsilon");
const error = field("error");
const slider = field("slider");
const forecast = field("forecast");
const rows = [...form.querySelectorAll("table.columns tbody tr")].map((line, i) => ({
  line,
  name: line.querySelector("label").textContent,
  use: field(`use-${i}`),
  ends: [field(`a-${i}`), field(`b-${i}`)],
}));
let goal = "epsilon"; // The field that the user set last: epsilon or error.
let asked = 0;
let waiting = 0;

// The fields of the form ------------------------------------------------------------------------------------

function readForm(more) {
  const words = { goal, ...more };
  for (const [name, value] of new FormData(form)) if (name !== "use") words[name] = value;
  words.error = error.value;
  words.use = rows.flatMap((row, i) => (row.use.checked ? [i] : []));
  return words;
}

async function post(path, words) {
  const answer = await fetch(document.documentElement.dataset.root + path, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json" },
    body: JSON.stringify(words),
  });
  if (answer.status === 401) {
    say("This studio was started again, or your session ended. Open the address that it printed.", "wrong");
    throw new Error("no session");
  }
  if (!answer.ok) throw new Error(String(answer.status));
  return answer.json();
}

// The forecast --------------------------------------------------------------------------------------------

function line(kind, text, className) {
  const made = document.createElement(kind);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function say(text, className = "help") {
  forecast.replaceChildren(line("p", text, className));
}

const digits = (value) => (value === null || value === undefined ? "" : String(Number(value.toPrecision(4))));

function show(found) {
  const curve = field("curve");
  if (found.hint || found.epsilon === undefined) {
    say(found.hint || "Choose epsilon with the slider, or type a target error.");
    curve.hidden = true;
    if (found.again) askLater(400);
    return;
  }
  if (goal === "error") setEpsilon(found.epsilon);
  else if (found.error !== null) error.value = digits(found.error);
  const parts = [found.columns.length ? errorTable(found) : line("p", found.advice, "help")];
  const rows = found.n ? `${found.n.toLocaleString("en")} rows. ` : "";
  const mechanism = found.mechanism ? `Mechanism: ${found.mechanism}. ` : "";
  parts.push(line("p", `${rows}${mechanism}`, "help"), line("p", found.guarantee, "help"));
  if (found.warning) parts.push(line("p", `Warning: ${found.warning}`, "wrong"));
  forecast.replaceChildren(...parts);
  const doubt = field("doubt");
  if (doubt) doubt.hidden = !found.warning && !field("accepted").checked;
  curve.hidden = false;
  curve.src = document.documentElement.dataset.root + found.picture;
}

function errorTable(found) {
  const table = document.createElement("table");
  table.append(line("caption", `Expected error${found.unit && ` (${found.unit})`}`));
  for (const [name, value] of found.columns) {
    const row = table.insertRow();
    const head = line("th", name);
    head.scope = "row";
    row.append(head, line("td", `± ${digits(value)}`));
  }
  const frame = document.createElement("div");
  frame.className = "scroll short";
  frame.tabIndex = 0;
  frame.append(table);
  if (found.more > found.columns.length) frame.append(line("p", `${found.more - found.columns.length} more columns`, "help"));
  return frame;
}

async function ask() {
  const number = ++asked;
  try {
    const found = await post(`/desk/${desk}/forecast`, readForm());
    if (number === asked) show(found);
  } catch (problem) {
    if (problem.message !== "no session" && number === asked) say("The studio does not answer.", "wrong");
  }
}

field("curve").addEventListener("error", () => {
  field("curve").hidden = true; // There is no picture.
});

function askLater(pause = 150) {
  clearTimeout(waiting);
  waiting = setTimeout(ask, pause);
}

// The two ends of the slider --------------------------------------------------------------------------------

function setSlider(value) {
  const known = Number.isFinite(value) && value > 0;
  slider.classList.toggle("unset", !known);
  slider.setAttribute("aria-valuetext", known ? `epsilon ${digits(value)}` : "not chosen");
  if (known) slider.value = String(Math.round(100 * Math.log10(value)));
}

function setEpsilon(value) {
  epsilon.value = digits(value);
  clearError(epsilon);
  setSlider(value);
}

slider.addEventListener("input", () => {
  goal = "epsilon";
  setEpsilon(Number((10 ** (Number(slider.value) / 100)).toPrecision(3)));
  askLater(60);
});
slider.addEventListener("keydown", (event) => {
  // The first press chooses a value, even if the slider is at its end.
  if (slider.classList.contains("unset") && event.key.startsWith("Arrow")) slider.dispatchEvent(new Event("input"));
});
epsilon.addEventListener("input", () => {
  goal = "epsilon";
  setSlider(Number(epsilon.value));
});
error.addEventListener("input", () => {
  goal = "error";
});

// Columns -----------------------------------------------------------------------------------------------------

function countTicked() {
  const many = rows.filter((row) => row.use.checked).length;
  field("ticked").textContent = `${many} of ${rows.length} ticked`;
  for (const option of field("error_of").options) {
    option.hidden = !rows[Number(option.value)].use.checked;
  }
  const [chosen] = field("error_of").selectedOptions;
  const first = [...field("error_of").options].find((option) => !option.hidden);
  if (first && (!chosen || chosen.hidden)) first.selected = true;
}

for (const row of rows) {
  for (const end of row.ends) {
    if (!end) continue;
    end.addEventListener("input", () => {
      if (end.value) row.use.checked = true;
      countTicked();
    });
  }
}

function tick(on) {
  for (const row of rows) if (!row.line.hidden && !row.use.disabled) row.use.checked = on;
  countTicked();
  askLater();
}
field("tick-all").addEventListener("click", () => tick(true));
field("tick-none").addEventListener("click", () => tick(false));
field("filter").addEventListener("input", (event) => {
  const wanted = event.target.value.toLowerCase();
  for (const row of rows) row.line.hidden = !row.name.toLowerCase().includes(wanted);
});

function parseLine(text) {
  // Parse name=lo:hi, or a name and two numbers with spaces, tabs or commas between them.
  const found = text.match(/^(.*?)\s*=\s*([^:=\s]+)\s*:\s*(\S+)$/) || text.match(/^(.*?)[\s,;]+([^\s,;]+)[\s,;]+([^\s,;]+)$/);
  if (!found || !Number.isFinite(Number(found[2])) || !Number.isFinite(Number(found[3]))) return null;
  return [found[1].trim().replace(/^"(.*)"$/, "$1"), found[2], found[3]];
}

field("paste").addEventListener("input", (event) => {
  const names = new Map(rows.map((row) => [row.name, row]));
  let filled = 0;
  const wrong = [];
  event.target.value.split(/\r?\n/).forEach((text, i) => {
    if (!text.trim()) return;
    const found = parseLine(text.trim());
    const row = found && names.get(found[0]);
    if (!row || row.use.disabled) {
      wrong.push(i + 1);
      return;
    }
    row.use.checked = true;
    row.ends[0].value = found[1];
    row.ends[1].value = found[2];
    filled += 1;
  });
  const said = field("paste-said");
  const which = wrong.slice(0, 5).join(", ") + (wrong.length > 5 ? ", ..." : "");
  said.textContent = `${filled} columns filled in.${wrong.length ? ` Not understood, or no such column: line ${which}.` : ""}`;
  said.className = wrong.length ? "wrong" : "help";
  countTicked();
  askLater();
});

function toggle() {
  const statistic = form.elements.statistic.value;
  const kind = statistic === "histogram" ? "bounds" : form.elements.kind.value;
  for (const part of form.querySelectorAll("[data-kind]")) part.hidden = !part.dataset.kind.split(" ").includes(kind);
  for (const part of form.querySelectorAll("[data-statistic]")) {
    part.hidden = !part.dataset.statistic.split(" ").includes(statistic);
  }
  for (const row of rows) {
    row.use.disabled = row.use.hasAttribute("data-text") && statistic !== "histogram";
  }
  const pairs = kind === "bounds" || kind === "normal";
  for (const cell of form.querySelectorAll(".pair")) {
    cell.hidden = !pairs;
    if (cell.dataset[kind]) cell.textContent = cell.dataset[kind];
  }
  if (!pairs) return;
  const titles = kind === "bounds" ? ["Lower", "Upper"] : ["Mean", "Std"];
  for (const row of rows) row.ends.forEach((end, i) => end && end.setAttribute("aria-label", `${titles[i]}, ${row.name}`));
}

// The ledger --------------------------------------------------------------------------------------------------

const ledger = field("ledger");
const dataset = field("dataset");

function showBalance(found) {
  const place = field("balance");
  if (found.problem) {
    place.replaceChildren(line("p", found.problem, "help"));
    return;
  }
  if (found.datasets) {
    field("datasets").replaceChildren(...found.datasets.map((name) => Object.assign(document.createElement("option"), { value: name })));
    place.replaceChildren(line("p", found.datasets.length ? `It has: ${found.datasets.join(", ")}` : "It has no data sets yet.", "help"));
    return;
  }
  const meter = Object.assign(document.createElement("meter"), { min: 0, max: 1, value: found.share, high: 0.8 });
  meter.setAttribute("aria-label", `Share of the budget that is spent: ${Math.round(100 * found.share)} percent`);
  const list = document.createElement("dl");
  for (const name of ["budget", "spent", "left", "protects", "releases"]) list.append(line("dt", name), line("dd", found[name]));
  place.replaceChildren(meter, list);
}

async function balance() {
  if (!ledger || !ledger.value.trim()) {
    if (ledger) field("balance").replaceChildren();
    return;
  }
  try {
    const words = { csrf: form.elements.csrf.value, ledger: ledger.value, dataset: dataset.value };
    const found = await post("/ledger/balance", words);
    if (words.ledger === ledger.value && words.dataset === dataset.value) showBalance(found);
  } catch (problem) {
    // The message is beside the forecast.
  }
}

if (ledger) {
  let soon = 0;
  for (const one of [ledger, dataset]) {
    one.addEventListener("input", () => {
      clearTimeout(soon);
      soon = setTimeout(balance, 300);
    });
  }
  setInterval(() => document.hidden || balance(), 4000); // Other tabs and programs charge the ledger too.
  document.addEventListener("visibilitychange", () => document.hidden || balance());
  field("open-budget").addEventListener("click", async () => {
    try {
      const words = { csrf: form.elements.csrf.value, ledger: ledger.value, dataset: dataset.value };
      words.whole_epsilon = field("whole_epsilon").value;
      words.whole_delta = field("whole_delta").value;
      const found = await post("/ledger/open", words);
      showBalance(found);
      if (!found.problem) field("new-budget").open = false;
    } catch (problem) {
      // The message is beside the forecast.
    }
  });
  balance();
}

// All together ------------------------------------------------------------------------------------------------

function clearError(target) {
  // An error of a field is removed once the field changes.
  target.removeAttribute("aria-invalid");
  const wrong = target.id && field(`${target.id}-wrong`);
  if (wrong) wrong.hidden = true;
  const summary = field("summary");
  if (!summary || !target.id) return;
  for (const link of summary.querySelectorAll("li > a")) {
    if (link.hash === `#${target.id}`) link.parentElement.remove();
  }
  if (summary.querySelector("ul") && !summary.querySelector("li")) summary.hidden = true;
}

form.addEventListener("input", (event) => {
  clearError(event.target);
  if (event.target === slider || event.target.id === "paste" || event.target.id === "filter") return;
  if (event.target.name === "kind" || event.target.name === "statistic") toggle();
  if (event.target.name === "use") countTicked();
  if (event.target === error_of()) goal = "epsilon";
  askLater(event.target === error ? 500 : 150);
});
form.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (button && button.id === "release" && !button.hasAttribute("formaction")) {
    setTimeout(() => {
      button.disabled = true;
    });
  }
});
window.addEventListener("pageshow", () => {
  field("release").disabled = false; // the way back finds the page as it was left
});

function error_of() {
  return field("error_of");
}

toggle();
countTicked();
setSlider(Number(epsilon.value));
const summary = field("summary");
if (summary) summary.focus();
ask();
