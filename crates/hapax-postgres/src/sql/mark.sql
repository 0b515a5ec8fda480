-- Somebody waits for these, until then; a row that is not there is made, so that there is something to mark.
INSERT INTO $$.records AS r (id, version, changed, stamp, waited)
SELECT i, 0, '0', 0, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2
FROM unnest($1::bytea[]) AS i ORDER BY i
ON CONFLICT (id) DO UPDATE SET waited = excluded.waited
