"""`ellipsum studio`: a local web application from a file, a database or column names alone to a release.

In the order to read: `serve` opens a port, `security` checks every request, and `app` has the function of each address.
`workspace` holds tables and releases. `forms` turns a form into a request, `panels` has the forecast and the ledger
beside the form, and `orders` what a form orders; `jobs` runs orders in other processes. `pages` shows the results.
"""
