SELECT body, owner, stored, length(bytes) FROM $$.bodies WHERE body > $1 ORDER BY body LIMIT $2
