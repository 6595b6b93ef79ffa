"use strict";
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const said = document.getElementById("copied");
    try {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      said.textContent = "Copied.";
    } catch (error) {
      said.textContent = "The browser did not allow it: select the text and copy it.";
    }
  });
}
