-- Data of a name, which only the first entry of its queue may change. AUTOINCREMENT: a version is never given twice, not even after its
-- key was deleted. `edit` names the write, so that a repeat of it is known.
CREATE TABLE data (
    version   INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    queue     TEXT NOT NULL,
    key       TEXT NOT NULL,
    token     INTEGER NOT NULL,
    edit      TEXT NOT NULL,
    value     BLOB NOT NULL,
    UNIQUE (namespace, queue, key)
) STRICT;
