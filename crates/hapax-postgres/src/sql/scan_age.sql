SELECT id, changed::text FROM $$.records
WHERE tenant = $1 AND record IS NOT NULL AND (changed, id) > ($2::text::xid8, $3) ORDER BY changed, id LIMIT $4
