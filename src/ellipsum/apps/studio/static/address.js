// A token that is still in the address, as when the printed one is opened again, is taken out of it.
"use strict";
if (/^#[0-9a-f]{64}$/.test(location.hash)) history.replaceState(null, "", location.pathname);
