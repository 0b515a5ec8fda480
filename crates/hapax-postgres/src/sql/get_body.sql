SELECT bytes FROM $$.bodies WHERE body = $1
