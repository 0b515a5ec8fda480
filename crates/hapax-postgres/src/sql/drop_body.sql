DELETE FROM $$.bodies WHERE body = $1
