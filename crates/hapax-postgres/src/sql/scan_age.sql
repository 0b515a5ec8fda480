-- Named by its table: the bare name would be that of the text, in which 1000 comes before 999.
SELECT r.id, r.changed::text FROM $$.records r
WHERE r.tenant = $1 AND r.record IS NOT NULL AND (r.changed, r.id) > ($2::text::xid8, $3) ORDER BY r.changed, r.id LIMIT $4
