SELECT id, expiry FROM $$.records
WHERE expiry <= $1 AND (expiry, id) > ($2, $3) ORDER BY expiry, id LIMIT $4
