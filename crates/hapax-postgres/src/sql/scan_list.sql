SELECT id, place FROM $$.entries
WHERE list = $1 AND tag = $2 AND (place, id) > ($3, $4) ORDER BY place, id LIMIT $5
