SELECT id FROM $$.records WHERE in_doubt AND id > $1 ORDER BY id LIMIT $2
