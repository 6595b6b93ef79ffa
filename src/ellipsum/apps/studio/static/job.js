"use strict";
const root = document.documentElement.dataset.root;
const job = document.getElementById("job");
const bar = document.getElementById("part");

async function checkState() {
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
    // The studio may answer later.
  }
  setTimeout(checkState, 250);
}

if (job.dataset.state === "running") checkState();
