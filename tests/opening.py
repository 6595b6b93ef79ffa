"""Tables, sources and sessions as tests open them."""

import ellipsum.tables
from ellipsum.session import Reading, Session
from ellipsum.sources import open_source
from ellipsum.tables.selection import Selection


def open_table(data, columns=None, key=None, header=None):
    return ellipsum.tables.open_table(data, Selection(columns, key, header))


def session_on(data, rng=None, threads=None, columns=None):
    return Session(open_source(data, Selection(columns)), None, Reading(rng, threads))
