-- One row an id: its record, or the version of its removal. Nothing is partitioned by time, or one id could begin twice.
-- $$ stands for the schema.
CREATE TABLE $$.records (
    id bytea PRIMARY KEY,
    -- 0: nothing was written, somebody only waits for it.
    version bigint NOT NULL,
    -- The transaction that wrote it: the order of the feed.
    changed xid8 NOT NULL,
    stamp bigint NOT NULL,
    -- Until when somebody waits for it, in ms.
    waited bigint NOT NULL DEFAULT 0,
    -- The envelope; none after a removal.
    record bytea,
    surface bytea,
    tenant bytea,
    tombstone boolean NOT NULL DEFAULT false,
    lease_end bigint,
    expiry bigint,
    gone bigint,
    in_doubt boolean NOT NULL DEFAULT false,
    -- Places in groups and queues, 25 bytes each.
    entries bytea
) WITH (fillfactor = 85);
ALTER TABLE $$.records ALTER record SET STORAGE EXTERNAL;
CREATE INDEX records_feed ON $$.records (changed, id);
CREATE INDEX records_age ON $$.records (tenant, changed, id) WHERE record IS NOT NULL;
CREATE INDEX records_surface ON $$.records (surface) WHERE record IS NOT NULL;
CREATE INDEX records_lease ON $$.records (lease_end, id) WHERE lease_end IS NOT NULL;
CREATE INDEX records_expiry ON $$.records (expiry, id) WHERE expiry IS NOT NULL;
CREATE INDEX records_doubt ON $$.records (id) WHERE in_doubt;
CREATE INDEX records_removed ON $$.records (stamp) WHERE record IS NULL;

CREATE TABLE $$.entries (
    list smallint NOT NULL,
    tag bytea NOT NULL,
    -- Big-endian, so that it sorts as the number does.
    place bytea NOT NULL,
    id bytea NOT NULL,
    PRIMARY KEY (list, tag, place, id)
);
CREATE INDEX entries_id ON $$.entries (id);

-- Moves bytes from the one to the other; runs only where a record has entries or had some.
CREATE FUNCTION $$.list_entries() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM $$.entries e WHERE e.id = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO $$.entries (list, tag, place, id)
        SELECT get_byte(NEW.entries, at), substr(NEW.entries, at + 2, 16), substr(NEW.entries, at + 18, 8), NEW.id
        FROM generate_series(0, coalesce(length(NEW.entries), 0) - 25, 25) AS at
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $body$;
CREATE TRIGGER entries_come AFTER INSERT ON $$.records FOR EACH ROW
    WHEN (NEW.entries IS NOT NULL) EXECUTE FUNCTION $$.list_entries();
CREATE TRIGGER entries_move AFTER UPDATE ON $$.records FOR EACH ROW
    WHEN (OLD.entries IS DISTINCT FROM NEW.entries) EXECUTE FUNCTION $$.list_entries();
CREATE TRIGGER entries_go AFTER DELETE ON $$.records FOR EACH ROW
    WHEN (OLD.entries IS NOT NULL) EXECUTE FUNCTION $$.list_entries();

-- What is known of removals whose rows were deleted.
CREATE TABLE $$.forgotten (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    version bigint NOT NULL,
    changed xid8 NOT NULL
);
INSERT INTO $$.forgotten (version, changed) VALUES (0, '0');

CREATE TABLE $$.bodies (
    body bytea PRIMARY KEY,
    owner bytea NOT NULL,
    stored bigint NOT NULL,
    bytes bytea NOT NULL
);
ALTER TABLE $$.bodies ALTER bytes SET STORAGE EXTERNAL;
