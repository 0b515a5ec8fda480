-- What the feed has forgotten, which transactions are all ended, and whether anything waits for others to end.
SELECT f.changed::text, pg_snapshot_xmin(pg_current_snapshot())::text,
       EXISTS (SELECT FROM $$.records r WHERE r.changed >= pg_snapshot_xmin(pg_current_snapshot()) AND r.version > 0)
FROM $$.forgotten f
