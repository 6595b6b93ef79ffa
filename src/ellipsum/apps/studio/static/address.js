// Remove a token from the address, for example when the printed address is opened again.
"use strict";
if (/^#[0-9a-f]{64}$/.test(location.hash)) history.replaceState(null, "", location.pathname);
