"""`ellipsum studio`: a local web application from a file, a database or column names alone to a release."""
