-- A write over a version. If it has moved, the row comes along.
WITH t AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us),
w AS (
    UPDATE $$.records AS r SET
        version = greatest(t.us, r.version + 1), changed = pg_current_xact_id(),
        stamp = greatest(t.us / 1000, r.stamp), record = $2, surface = $3, tenant = $4, tombstone = $5,
        lease_end = coalesce($6, greatest(t.us / 1000, r.stamp) + $7),
        expiry = coalesce($8, greatest(t.us / 1000, r.stamp) + $9),
        gone = coalesce($10, greatest(t.us / 1000, r.stamp) + $11),
        in_doubt = $12, entries = $13, weight = $14
    FROM t WHERE r.id = $1 AND r.version = $16
    RETURNING r.version, r.stamp, r.waited
)
SELECT true, w.version, w.stamp, NULL::bytea, t.us / 1000,
       CASE WHEN w.waited > t.us / 1000 THEN pg_notify($15, encode($1, 'hex'))::text END
FROM w, t
UNION ALL
SELECT false, r.version, r.stamp, r.record, t.us / 1000, NULL
FROM $$.records r, t WHERE r.id = $1 AND NOT EXISTS (SELECT FROM w)
