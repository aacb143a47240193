-- Fences in Postgres: what a holder of a Tenure lock calls inside its own transaction, from any language.
--
-- `SELECT tenure.fence('invoices', 42)` lets token 42 pass unless a transaction with a higher token has passed before; then it aborts the
-- transaction with SQLSTATE TF001 and the winning token in DETAIL. It protects what is read and written AFTER it in the same transaction,
-- under every isolation level; what goes round it is not protected.
--
-- Install (again, if you like) as the owner of the database, in one transaction:   psql -1 -v ON_ERROR_STOP=1 -f tenure_fence.sql
-- Then let the roles of your programs use it; they need no right to the table, so they can raise a fence and never lower one:
--   GRANT USAGE ON SCHEMA tenure TO app;
--   GRANT EXECUTE ON FUNCTION tenure.fence(text, numeric), tenure.fence_mark(text) TO app;

-- Two installations at one time would both find nothing there.
SELECT pg_advisory_xact_lock(hashtext('tenure'));

CREATE SCHEMA IF NOT EXISTS tenure;

-- Tokens go to 2^64 - 1, beyond bigint. The free space lets a mark be raised without touching the index.
CREATE TABLE IF NOT EXISTS tenure.fence_marks (
    resource text PRIMARY KEY,
    token numeric(20, 0) NOT NULL CHECK (token BETWEEN 0 AND 18446744073709551615),
    raised_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Raises the mark of `resource` to `token`, for the length of this transaction and, once it commits, for good. Call it FIRST: what was
-- read before it may be what an older holder has changed since.
--
-- It always writes, even an equal token: so transactions on one resource come one after the other, and one that began before another's
-- end fails with 40001 under REPEATABLE READ and SERIALIZABLE, where it would read what was there before (begin it again).
CREATE OR REPLACE FUNCTION tenure.fence(resource text, token numeric) RETURNS numeric
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    winner numeric;
BEGIN
    IF fence.resource IS NULL OR octet_length(fence.resource) NOT BETWEEN 1 AND 512 THEN
        RAISE EXCEPTION 'a fence needs a resource: write a name of 1 to 512 bytes' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF fence.token IS NULL THEN
        RAISE EXCEPTION 'no token for the fence of ''%'': write the number that the lock was granted with', fence.resource
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    -- Not a number and infinity are larger than all numbers here.
    IF fence.token < 0 OR fence.token > 18446744073709551615 OR fence.token <> trunc(fence.token) THEN
        RAISE EXCEPTION '% is no fencing token: write a whole number from 0 to 18446744073709551615', fence.token
            USING ERRCODE = 'numeric_value_out_of_range';
    END IF;

    INSERT INTO tenure.fence_marks AS mark (resource, token, raised_at)
        VALUES (fence.resource, fence.token, clock_timestamp())
        ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token, raised_at = EXCLUDED.raised_at
            WHERE mark.token <= EXCLUDED.token;
    IF FOUND THEN
        RETURN fence.token;
    END IF;

    SELECT mark.token INTO winner FROM tenure.fence_marks AS mark WHERE mark.resource = fence.resource;
    RAISE EXCEPTION 'token % is too old for ''%'': a holder with token % has been there', fence.token, fence.resource, winner
        USING ERRCODE = 'TF001', DETAIL = winner::text, HINT = 'The lock was lost. Stop this work; whoever holds the lock now does it.';
END
$$;

-- The highest token that has passed, or NULL. It raises nothing: to look at, not to decide by.
CREATE OR REPLACE FUNCTION tenure.fence_mark(resource text) RETURNS numeric
    LANGUAGE sql STABLE
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
    SELECT mark.token FROM tenure.fence_marks AS mark WHERE mark.resource = $1
$$;

-- For tables whose rows carry their own fence, in a column `fence numeric(20, 0) NOT NULL DEFAULT 0`:
--   CREATE TRIGGER fence BEFORE INSERT OR UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION tenure.fence_row();
-- refuses, with the same SQLSTATE and DETAIL, an UPDATE that would take the column back. An UPDATE that does not set the column, and a
-- DELETE, it cannot judge.
CREATE OR REPLACE FUNCTION tenure.fence_row() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NEW.fence IS NULL THEN
        RAISE EXCEPTION 'no token for this row of ''%'': set its column fence to the number that the lock was granted with', TG_TABLE_NAME
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF NEW.fence < 0 OR NEW.fence > 18446744073709551615 OR NEW.fence <> trunc(NEW.fence) THEN
        RAISE EXCEPTION '% is no fencing token: write a whole number from 0 to 18446744073709551615', NEW.fence
            USING ERRCODE = 'numeric_value_out_of_range';
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.fence < OLD.fence THEN
        RAISE EXCEPTION 'token % is too old for this row of ''%'': a holder with token % has been there', NEW.fence, TG_TABLE_NAME, OLD.fence
            USING ERRCODE = 'TF001', DETAIL = OLD.fence::text, HINT = 'The lock was lost. Stop this work; whoever holds the lock now does it.';
    END IF;
    RETURN NEW;
END
$$;

REVOKE ALL ON TABLE tenure.fence_marks FROM PUBLIC;
REVOKE ALL ON FUNCTION tenure.fence(text, numeric), tenure.fence_mark(text) FROM PUBLIC;
