SELECT count(*) FILTER (WHERE NOT tombstone), count(*) FILTER (WHERE tombstone),
       least(coalesce(sum(coalesce(weight, octet_length(record))) FILTER (WHERE NOT tombstone), 0), 9223372036854775807)::bigint
FROM $$.records WHERE (surface = $1 OR tenant = $1) AND record IS NOT NULL
