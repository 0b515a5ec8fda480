-- What a record takes, its bodies included. Where a program from before this column has written, it is not known: what lies in
-- the row is counted then.
ALTER TABLE $$.records ADD COLUMN weight bigint;
