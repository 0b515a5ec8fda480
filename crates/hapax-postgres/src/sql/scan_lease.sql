SELECT id, lease_end FROM $$.records
WHERE lease_end <= $1 AND (lease_end, id) > ($2, $3) ORDER BY lease_end, id LIMIT $4
