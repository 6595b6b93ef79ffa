"""Tables, sources and sessions as tests open them."""

import ellipsum.sources.open
from ellipsum.session import Reading, Session
from ellipsum.sources import open_source
from ellipsum.sources.selection import Selection


def open_table(data, columns=None, key=None, header=None):
    return ellipsum.sources.open.open_table(data, Selection(columns, key, header))


def session_on(data, rng=None, threads=None, columns=None):
    return Session(open_source(data, Selection(columns)), None, Reading(rng, threads))
