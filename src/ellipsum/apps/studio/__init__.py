"""`ellipsum studio`: a local web application from a file, a database or column names alone to a release.

In the order to read: `serve` opens a port, `security` is the gate before every page, and `app` answers each address.
`workspace` remembers tables and releases. `forms` reads a form to a request, `forecasts` plans it, and `orders` is what
a form orders; `jobs` lets a `worker` process make the release. `pages`, `pictures` and `combined` show what came.
"""
