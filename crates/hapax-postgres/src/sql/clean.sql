-- A small batch: removals whose version nobody can need any more, and records that read as absent for as long.
WITH t AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms),
a AS (
    SELECT r.id FROM $$.records r, t
    WHERE r.record IS NULL AND r.stamp < t.ms - $1 AND r.waited < t.ms
    ORDER BY r.stamp LIMIT $2 FOR UPDATE OF r SKIP LOCKED
),
b AS (
    SELECT r.id FROM $$.records r, t
    WHERE r.expiry < t.ms - $1 AND r.gone < t.ms - $1 AND r.waited < t.ms
    ORDER BY r.expiry LIMIT $2 FOR UPDATE OF r SKIP LOCKED
),
d AS (
    DELETE FROM $$.records r USING (SELECT id FROM a UNION ALL SELECT id FROM b) o WHERE r.id = o.id
    RETURNING r.version, CASE WHEN r.record IS NULL THEN r.changed ELSE '0'::xid8 END AS changed
),
f AS (
    UPDATE $$.forgotten f SET version = greatest(f.version, m.version), changed = greatest(f.changed, m.changed)
    FROM (SELECT max(version) AS version, max(changed::text::numeric)::text::xid8 AS changed FROM d) m
    WHERE m.version > f.version OR m.changed > f.changed
)
SELECT count(*) FROM d
