INSERT INTO $$.bodies (body, owner, stored, bytes)
VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, $3)
ON CONFLICT (body) DO UPDATE SET owner = excluded.owner, stored = excluded.stored, bytes = excluded.bytes
