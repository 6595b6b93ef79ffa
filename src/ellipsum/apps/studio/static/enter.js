// The token is after the # of the address, which browsers do not send. It is removed from the address at once.
"use strict";
const token = decodeURIComponent(location.hash.slice(1));
if (/^[0-9a-f]{64}$/.test(token)) {
  history.replaceState(null, "", location.pathname);
  document.getElementById("token").value = token;
  document.getElementById("enter").submit();
}
