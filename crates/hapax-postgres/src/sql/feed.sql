-- Never past a transaction that has not ended: its rows may come with a lower number than those already seen.
SELECT r.id, r.version, r.stamp, r.record, r.changed::text,
       (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM $$.records r
WHERE (r.changed, r.id) > ($1::text::xid8, $2) AND r.version > 0
  AND r.changed < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY r.changed, r.id LIMIT $3
