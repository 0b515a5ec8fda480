SELECT r.version, r.stamp, r.record, t.us / 1000
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us) t
LEFT JOIN $$.records r ON r.id = $1
