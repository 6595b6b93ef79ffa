"use strict";
const root = document.documentElement.dataset.root;
const job = document.getElementById("job");
const bar = document.getElementById("part");

async function look() {
  try {
    const answer = await fetch(`${root}/job/${job.dataset.job}/state`, { headers: { accept: "application/json" } });
    if (answer.ok) {
      const { state, part } = await answer.json();
      if (state === "released") {
        location.replace(`${root}/release/${job.dataset.job}`);
        return;
      }
      if (state !== "running") {
        location.reload();
        return;
      }
      if (part > 0) bar.value = part;
    } else if (answer.status === 401) {
      location.reload();
      return;
    }
  } catch (error) {
    // the studio does not answer now: it may soon
  }
  setTimeout(look, 250);
}

if (job.dataset.state === "running") look();
