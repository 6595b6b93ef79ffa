// The form of a table: the forecast follows what is typed; nothing is released by a script.
"use strict";

const form = document.getElementById("desk");
const desk = form.getAttribute("data-desk"); // form.dataset is the field of that name
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
let goal = "epsilon"; // which end of the slider was set last
let points = []; // [epsilon, error] along the slider
let asked = 0;
let waiting = 0;

// What the form says ------------------------------------------------------------------------------------

function said(more) {
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
  if (found.hint) {
    say(found.hint);
    field("each").hidden = true;
    if (found.again) later(400);
    return;
  }
  if (found.epsilon === undefined) {
    say("Choose epsilon, by the slider or by a wanted error.");
    return;
  }
  if (goal === "error") setEpsilon(found.epsilon);
  else if (found.error !== null) error.value = digits(found.error);
  const each = line("ul", "", "leads");
  if (found.columns.length <= 6) {
    each.append(...found.columns.map(([name, value]) => {
      const made = line("li", "");
      made.append(line("span", name), " ", line("b", `± ${digits(value)}`));
      return made;
    }));
  }
  const big = line("p", "", "big");
  if (found.error === null) big.append(line("small", found.advice));
  else big.append(line("b", `± ${digits(found.error)}`), " ", line("small", found.unit));
  const facts = line("p", `Noise: ${found.law}. ${found.n ? `For ${found.n.toLocaleString("en")} rows. ` : ""}`, "help");
  const parts = [each, big, facts, line("p", found.guarantee, "help")];
  if (found.doubt) parts.push(line("p", `Warning: ${found.doubt}`, "wrong"));
  forecast.replaceChildren(...parts);
  const doubt = field("doubt");
  if (doubt) doubt.hidden = !found.doubt && !field("accepted").checked;
  showEach(found.columns);
}

function showEach(columns) {
  const each = field("each");
  each.hidden = columns.length <= 6;
  each.querySelector("tbody").replaceChildren(
    ...columns.map(([name, value]) => {
      const made = document.createElement("tr");
      const head = line("th", name);
      head.scope = "row";
      made.append(head, line("td", digits(value)));
      return made;
    }),
  );
}

async function ask() {
  const number = ++asked;
  try {
    const found = await post(`/desk/${desk}/forecast`, said());
    if (number !== asked) return;
    show(found);
    const drawn = await post(`/desk/${desk}/curve`, said());
    if (number !== asked) return;
    points = drawn.points || [];
    field("curve").innerHTML = drawn.svg; // drawn by the studio itself, of numbers alone
  } catch (problem) {
    if (problem.message !== "no session" && number === asked) say("The studio does not answer.", "wrong");
  }
}

function later(pause = 150) {
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
  forgive(epsilon);
  setSlider(value);
}

function guess(value) {
  // between two points of the curve, until the studio has answered
  for (let i = 1; i < points.length; i++) {
    const [[e0, v0], [e1, v1]] = [points[i - 1], points[i]];
    if (value >= e0 && value <= e1) {
      const share = Math.log(value / e0) / Math.log(e1 / e0);
      return Math.exp(Math.log(v0) * (1 - share) + Math.log(v1) * share);
    }
  }
  return null;
}

slider.addEventListener("input", () => {
  goal = "epsilon";
  setEpsilon(Number((10 ** (Number(slider.value) / 100)).toPrecision(3)));
  const near = guess(Number(epsilon.value));
  if (near !== null) {
    error.value = digits(near);
    const big = forecast.querySelector(".big b");
    if (big) big.textContent = `≈ ${digits(near)}`;
  }
  later(60);
});
slider.addEventListener("keydown", (event) => {
  // the first press chooses a point, even where the slider cannot move further
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

function counted() {
  const many = rows.filter((row) => row.use.checked).length;
  field("ticked").textContent = `${many} of ${rows.length} ticked`;
  for (const option of field("error_of").options) {
    if (option.value) option.hidden = !rows[Number(option.value)].use.checked;
  }
  const chosen = field("error_of").selectedOptions[0];
  if (chosen && chosen.hidden) field("error_of").value = "";
}

for (const row of rows) {
  for (const end of row.ends) {
    if (!end) continue;
    end.addEventListener("input", () => {
      if (end.value) row.use.checked = true;
      counted();
    });
  }
}

function tick(on) {
  for (const row of rows) if (!row.line.hidden && !row.use.disabled) row.use.checked = on;
  counted();
  later();
}
field("tick-all").addEventListener("click", () => tick(true));
field("tick-none").addEventListener("click", () => tick(false));
field("filter").addEventListener("input", (event) => {
  const wanted = event.target.value.toLowerCase();
  for (const row of rows) row.line.hidden = !row.name.toLowerCase().includes(wanted);
});

function understood(text) {
  // name=lo:hi, or a name and two numbers with spaces, tabs or commas between them
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
    const found = understood(text.trim());
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
  counted();
  later();
});

function toggle() {
  const kind = form.elements.kind.value;
  for (const part of form.querySelectorAll("[data-kind]")) part.hidden = !part.dataset.kind.split(" ").includes(kind);
  const pairs = kind === "bounds" || kind === "normal";
  for (const cell of form.querySelectorAll(".pair")) {
    cell.hidden = !pairs;
    if (cell.dataset[kind]) cell.textContent = cell.dataset[kind];
  }
  if (!pairs) return;
  const [first, second] = kind === "bounds" ? ["Lower", "Upper"] : ["Mean", "Std"];
  for (const row of rows) {
    if (row.ends[0]) row.ends[0].setAttribute("aria-label", `${first}, ${row.name}`);
    if (row.ends[1]) row.ends[1].setAttribute("aria-label", `${second}, ${row.name}`);
  }
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
    // said beside the forecast
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
  setInterval(() => document.hidden || balance(), 4000); // other tabs and programs spend too
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
      // said beside the forecast
    }
  });
  balance();
}

// All together ------------------------------------------------------------------------------------------------

function forgive(target) {
  // what was wrong with a field is no longer known once it is changed
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
  forgive(event.target);
  if (event.target === slider || event.target.id === "paste" || event.target.id === "filter") return;
  if (event.target.name === "kind") toggle();
  if (event.target.name === "use") counted();
  if (event.target === error_of()) goal = "epsilon";
  later(event.target === error ? 500 : 150);
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
counted();
setSlider(Number(epsilon.value));
const summary = field("summary");
if (summary) summary.focus();
ask();
