-- A first write. If somebody was there, the row comes along.
WITH t AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us),
w AS (
    INSERT INTO $$.records AS r (id, version, changed, stamp, record, surface, tenant, tombstone,
                                 lease_end, expiry, gone, in_doubt, entries, weight)
    SELECT $1::bytea, greatest(t.us, f.version + 1), pg_current_xact_id(), t.us / 1000, $2::bytea, $3::bytea, $4::bytea, $5::boolean,
           coalesce($6, t.us / 1000 + $7), coalesce($8, t.us / 1000 + $9), coalesce($10, t.us / 1000 + $11), $12::boolean, $13::bytea, $14::bigint
    FROM t, $$.forgotten f
    ON CONFLICT (id) DO UPDATE SET
        version = excluded.version, changed = excluded.changed, stamp = excluded.stamp, record = excluded.record,
        surface = excluded.surface, tenant = excluded.tenant, tombstone = excluded.tombstone,
        lease_end = excluded.lease_end, expiry = excluded.expiry, gone = excluded.gone,
        in_doubt = excluded.in_doubt, entries = excluded.entries, weight = excluded.weight
    WHERE r.version = 0
    RETURNING r.version, r.stamp, r.waited
)
SELECT true, w.version, w.stamp, NULL::bytea, t.us / 1000,
       CASE WHEN w.waited > t.us / 1000 THEN pg_notify($15, encode($1, 'hex'))::text END
FROM w, t
UNION ALL
SELECT false, r.version, r.stamp, r.record, t.us / 1000, NULL
FROM $$.records r, t WHERE r.id = $1 AND NOT EXISTS (SELECT FROM w)
