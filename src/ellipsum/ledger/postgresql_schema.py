"""What acts on a ledger's tables on a server, beside what the ledger itself has put there."""

from __future__ import annotations

import re
from functools import cache

from .store import TABLES, Row

REFUSES = " begin raise exception 'entries are never changed or removed'; end "
"""What is done about a change of entries."""
ACTING = """
with tables as (
    select oid, relname from pg_class where oid in
    (to_regclass('ellipsum_entries'), to_regclass('ellipsum_plans'), to_regclass('ellipsum_results'))
)
select 'table', concat_ws(' ', c.relname, c.relkind, c.relpersistence, c.relrowsecurity)
    from pg_class c where c.oid in (select oid from tables)
union all select 'column', concat_ws(' ', t.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
    a.atthasdef, a.attgenerated <> '', a.attidentity <> '', a.attcollation in (0, 100))
    from pg_attribute a join tables t on t.oid = a.attrelid where a.attnum > 0 and not a.attisdropped
union all select 'trigger', concat_ws(' ', t.relname, g.tgname, g.tgtype, g.tgenabled, g.tgqual is null, p.prosrc)
    from pg_trigger g join tables t on t.oid = g.tgrelid join pg_proc p on p.oid = g.tgfoid where not g.tgisinternal
union all select 'rule', r.rulename::text from pg_rewrite r where r.ev_class in (select oid from tables)
union all select 'child', i.inhrelid::text from pg_inherits i
    where i.inhparent in (select oid from tables) or i.inhrelid in (select oid from tables)
union all select 'constraint', k.conname::text from pg_constraint k where k.contype not in ('p', 'n')
    and (k.conrelid in (select oid from tables) or k.confrelid in (select oid from tables))
"""
_TABLE = re.compile(r"create table if not exists (\w+) \((.*)\)")


@cache
def as_made() -> frozenset[Row]:
    """What `ACTING` finds where nobody has changed anything."""
    made = {("trigger", f"ellipsum_entries ellipsum_kept 58 O t {REFUSES}")}  # before update, delete, truncate
    for name, columns in filter(None, map(_table, TABLES)):
        made.add(("table", f"{name} r p f"))
        made |= {("column", _column(name, column)) for column in columns.split(", ")}
    return frozenset(made)


def _table(text: str) -> tuple[str, str] | None:
    found = _TABLE.fullmatch(text)
    return None if found is None else (found[1], found[2])


def _column(table: str, text: str) -> str:
    name, kind, *more = text.split()
    return f"{table} {name} {kind} {'t' if more else 'f'} f f f t"
