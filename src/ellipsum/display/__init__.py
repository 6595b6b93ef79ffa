"""The report of a release: one page of HTML with all that a reader needs, and nothing that was not published."""
