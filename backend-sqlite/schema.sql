-- One file holds the queues of all applications of a host; names stand as they were given.

-- A session ends when its time is over, or with the boot that the time belongs to. `address` is the wake-up socket of its process.
CREATE TABLE sessions (
    id             TEXT PRIMARY KEY,
    namespace      TEXT NOT NULL,
    boot           TEXT NOT NULL,
    time_namespace TEXT NOT NULL,
    expires_ms     INTEGER NOT NULL,
    address        TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- AUTOINCREMENT: a token is never given twice, not even after its queue was empty. `changed` is the revision of the last change.
CREATE TABLE entries (
    token     INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    queue     TEXT NOT NULL,
    id        TEXT NOT NULL,
    session   TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    version   INTEGER NOT NULL DEFAULT 1,
    value     BLOB NOT NULL,
    changed   INTEGER NOT NULL DEFAULT 0,
    UNIQUE (namespace, queue, id)
) STRICT;
CREATE INDEX entries_in_order ON entries (namespace, queue, token);
CREATE INDEX entries_of_session ON entries (session);

-- Who wants to hear of every change of a queue.
CREATE TABLE watches (
    number    INTEGER PRIMARY KEY AUTOINCREMENT,
    session   TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    namespace TEXT NOT NULL,
    queue     TEXT NOT NULL,
    UNIQUE (namespace, queue, session)
) STRICT;
CREATE INDEX watches_of_session ON watches (session);

CREATE TABLE namespaces (
    name       TEXT PRIMARY KEY,
    token_base INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Counts the changes of entries. Triggers do it, so that a change made by hand counts too.
CREATE TABLE counter (revision INTEGER NOT NULL) STRICT;
INSERT INTO counter VALUES (0);
CREATE TRIGGER entry_came AFTER INSERT ON entries BEGIN
    UPDATE counter SET revision = revision + 1;
    UPDATE entries SET changed = (SELECT revision FROM counter) WHERE token = NEW.token;
END;
CREATE TRIGGER entry_written AFTER UPDATE OF value, version ON entries BEGIN
    UPDATE counter SET revision = revision + 1;
    UPDATE entries SET changed = (SELECT revision FROM counter) WHERE token = NEW.token;
END;
CREATE TRIGGER entry_went AFTER DELETE ON entries BEGIN
    UPDATE counter SET revision = revision + 1;
END;
