SELECT count(*) FILTER (WHERE NOT tombstone), count(*) FILTER (WHERE tombstone)
FROM $$.records WHERE (surface = $1 OR tenant = $1) AND record IS NOT NULL
