#include "store/schema.h"

namespace sandboxkit::store {
namespace {

// Texts that a trigger raises are the reasons that `error_of` in sqlite.cc hands on.
constexpr const char* kControllerVersion1 = R"sql(
CREATE TABLE workspace (
  id TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  created INTEGER NOT NULL,
  max_sandboxes INTEGER NOT NULL
) STRICT;

CREATE TABLE credential (
  id TEXT NOT NULL PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('sk', 'jn', 'wk', 'op')),
  secret_hash TEXT NOT NULL CHECK (secret_hash <> ''),
  tenant TEXT NOT NULL,
  role TEXT NOT NULL,
  name TEXT NOT NULL,
  worker TEXT NOT NULL,
  uses_left INTEGER NOT NULL,
  created INTEGER NOT NULL,
  expires INTEGER,
  last_used INTEGER,
  revoked INTEGER
) STRICT;
CREATE INDEX credential_live ON credential (kind, tenant, created, id) WHERE revoked IS NULL;

CREATE TABLE worker (
  id TEXT NOT NULL PRIMARY KEY,
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('ready', 'cordoned', 'draining')),
  arch TEXT NOT NULL,
  engine TEXT NOT NULL,
  cpu_cores REAL NOT NULL,
  memory_mb INTEGER NOT NULL,
  max_sandboxes INTEGER NOT NULL,
  max_starting INTEGER NOT NULL,
  capabilities TEXT NOT NULL,
  runtimes TEXT NOT NULL,
  labels TEXT NOT NULL,
  images TEXT NOT NULL,
  joined INTEGER NOT NULL,
  last_heartbeat INTEGER
) STRICT;
CREATE INDEX worker_tenant ON worker (tenant, id);

-- Whom a worker serves is settled when it joins: changing it would move running sandboxes.
CREATE TRIGGER worker_keeps_tenant BEFORE UPDATE OF tenant ON worker
WHEN NEW.tenant <> OLD.tenant
BEGIN SELECT RAISE(ABORT, 'worker_tenant_fixed'); END;

CREATE TABLE sandbox (
  id TEXT NOT NULL PRIMARY KEY,
  tenant TEXT NOT NULL CHECK (tenant <> ''),
  name TEXT NOT NULL,
  worker TEXT NOT NULL,
  generation INTEGER NOT NULL,
  desired TEXT NOT NULL CHECK (desired IN ('running', 'stopped')),
  state TEXT NOT NULL CHECK (state IN ('pending', 'starting', 'running', 'paused', 'stopping',
                                       'stopped', 'error', 'lost', 'deleted')),
  reason TEXT NOT NULL,
  spec TEXT NOT NULL,
  spec_hash TEXT NOT NULL,
  policy_hash TEXT NOT NULL,
  next_egress TEXT NOT NULL,
  cpu_cores REAL NOT NULL,
  memory_mb INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  created INTEGER NOT NULL,
  expires INTEGER NOT NULL,
  started INTEGER,
  ended INTEGER
) STRICT;
-- A page of a tenant's list is read in order of ids within one state. What is live is spelled here as
-- in the queries (kLive in sqlite_tx_sandbox.cc), or they would not find these indexes.
CREATE INDEX sandbox_list ON sandbox (tenant, state, id);
CREATE UNIQUE INDEX sandbox_live_name ON sandbox (tenant, name)
  WHERE name <> '' AND state NOT IN ('stopped', 'error', 'lost', 'deleted');
CREATE INDEX sandbox_live_tenant ON sandbox (tenant, state)
  WHERE state NOT IN ('stopped', 'error', 'lost', 'deleted');
CREATE INDEX sandbox_live_worker ON sandbox (worker, state, cpu_cores, memory_mb)
  WHERE state NOT IN ('stopped', 'error', 'lost', 'deleted');
CREATE INDEX sandbox_ended ON sandbox (ended)
  WHERE state IN ('stopped', 'error', 'lost', 'deleted');

-- The tenant rule, again: whatever the code above forgets, no sandbox is placed on a worker of
-- another tenant. A worker that is not there serves nobody.
CREATE TRIGGER sandbox_placed BEFORE INSERT ON sandbox
WHEN NEW.worker <> '' AND NOT EXISTS (
  SELECT 1 FROM worker WHERE id = NEW.worker AND (tenant = '' OR tenant = NEW.tenant))
BEGIN SELECT RAISE(ABORT, 'foreign_placement'); END;
CREATE TRIGGER sandbox_moved BEFORE UPDATE OF worker, tenant ON sandbox
WHEN NEW.worker <> '' AND NOT EXISTS (
  SELECT 1 FROM worker WHERE id = NEW.worker AND (tenant = '' OR tenant = NEW.tenant))
BEGIN SELECT RAISE(ABORT, 'foreign_placement'); END;

CREATE TABLE delivery (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  worker TEXT NOT NULL,
  sandbox TEXT NOT NULL,
  generation INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('create', 'remove', 'renew')),
  state TEXT NOT NULL CHECK (state IN ('queued', 'done', 'failed')),
  attempts INTEGER NOT NULL,
  created INTEGER NOT NULL,
  not_before INTEGER NOT NULL
) STRICT;
CREATE INDEX delivery_queued ON delivery (worker, seq) WHERE state = 'queued';
CREATE INDEX delivery_sandbox ON delivery (sandbox);

CREATE TABLE audit (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  time INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  target TEXT NOT NULL,
  outcome TEXT NOT NULL,
  address TEXT NOT NULL
) STRICT;
CREATE INDEX audit_tenant ON audit (tenant, seq);
CREATE TRIGGER audit_keeps_rows BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'audit_append_only'); END;
CREATE TRIGGER audit_loses_none BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'audit_append_only'); END;

CREATE TABLE idempotency (
  tenant TEXT NOT NULL,
  key TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  sandbox TEXT NOT NULL,
  created INTEGER NOT NULL,
  PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_sandbox ON idempotency (sandbox);

-- What belongs to a sandbox goes with its row.
CREATE TRIGGER sandbox_purged AFTER DELETE ON sandbox
BEGIN
  DELETE FROM idempotency WHERE sandbox = OLD.id;
  DELETE FROM delivery WHERE sandbox = OLD.id;
END;

CREATE TABLE setting (
  name TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
)sql";

// Version 2: what workers, keys and workspaces use is counted as it changes, so that admission and
// placement read one row; limits, taints, complaints, drains; narrower credentials; request ids.
// Cores are counted in whole thousandths, rounded up: sums of fractions would drift.
constexpr const char* kControllerVersion2 = R"sql(
ALTER TABLE workspace ADD COLUMN max_cpu_cores REAL NOT NULL DEFAULT -1;
ALTER TABLE workspace ADD COLUMN max_memory_mb INTEGER NOT NULL DEFAULT -1;
ALTER TABLE credential ADD COLUMN sandbox TEXT NOT NULL DEFAULT '';
ALTER TABLE credential ADD COLUMN capabilities TEXT NOT NULL DEFAULT '';
ALTER TABLE credential ADD COLUMN networks TEXT NOT NULL DEFAULT '';
ALTER TABLE credential ADD COLUMN replaces TEXT NOT NULL DEFAULT '';
ALTER TABLE credential ADD COLUMN max_sandboxes INTEGER NOT NULL DEFAULT -1;
ALTER TABLE credential ADD COLUMN max_cpu_cores REAL NOT NULL DEFAULT -1;
ALTER TABLE credential ADD COLUMN max_memory_mb INTEGER NOT NULL DEFAULT -1;
CREATE INDEX credential_worker ON credential (worker) WHERE kind = 'wk' AND revoked IS NULL;
CREATE INDEX credential_sandbox ON credential (sandbox) WHERE sandbox <> '';
CREATE UNIQUE INDEX worker_name ON worker (tenant, name);
ALTER TABLE worker ADD COLUMN taints TEXT NOT NULL DEFAULT '[]';
ALTER TABLE worker ADD COLUMN problem TEXT NOT NULL DEFAULT '';
ALTER TABLE worker ADD COLUMN capability_cap TEXT NOT NULL DEFAULT '';
ALTER TABLE worker ADD COLUMN drain_until INTEGER;
ALTER TABLE delivery ADD COLUMN trace TEXT NOT NULL DEFAULT '';

DROP INDEX sandbox_live_tenant;
DROP INDEX sandbox_live_worker;
CREATE INDEX sandbox_live_worker ON sandbox (worker, id)
  WHERE state NOT IN ('stopped', 'error', 'lost', 'deleted');

CREATE TABLE use (
  kind TEXT NOT NULL CHECK (kind IN ('worker', 'tenant', 'key')),
  id TEXT NOT NULL,
  sandboxes INTEGER NOT NULL,
  starting INTEGER NOT NULL,
  cpu_millis INTEGER NOT NULL,
  memory_mb INTEGER NOT NULL,
  PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;

CREATE VIEW live_use AS
  SELECT id, tenant, worker, created_by, state IN ('pending', 'starting') AS starting,
         CAST(cpu_cores * 1000 + 0.999999 AS INTEGER) AS cpu_millis, memory_mb
  FROM sandbox WHERE state NOT IN ('stopped', 'error', 'lost', 'deleted');
INSERT INTO use SELECT 'worker', worker, count(*), sum(starting), sum(cpu_millis), sum(memory_mb)
  FROM live_use GROUP BY worker;
INSERT INTO use SELECT 'tenant', tenant, count(*), sum(starting), sum(cpu_millis), sum(memory_mb)
  FROM live_use GROUP BY tenant;
INSERT INTO use SELECT 'key', created_by, count(*), sum(starting), sum(cpu_millis), sum(memory_mb)
  FROM live_use GROUP BY created_by;
DROP VIEW live_use;

CREATE TRIGGER use_taken AFTER INSERT ON sandbox
WHEN NEW.state NOT IN ('stopped', 'error', 'lost', 'deleted')
BEGIN 
  INSERT INTO use VALUES ('worker', NEW.worker, 1, NEW.state IN ('pending', 'starting'),
    CAST(NEW.cpu_cores * 1000 + 0.999999 AS INTEGER), NEW.memory_mb)
  ON CONFLICT DO UPDATE SET sandboxes = sandboxes + 1, starting = starting + excluded.starting,
    cpu_millis = cpu_millis + excluded.cpu_millis, memory_mb = memory_mb + excluded.memory_mb;
  INSERT INTO use VALUES ('tenant', NEW.tenant, 1, NEW.state IN ('pending', 'starting'),
    CAST(NEW.cpu_cores * 1000 + 0.999999 AS INTEGER), NEW.memory_mb)
  ON CONFLICT DO UPDATE SET sandboxes = sandboxes + 1, starting = starting + excluded.starting,
    cpu_millis = cpu_millis + excluded.cpu_millis, memory_mb = memory_mb + excluded.memory_mb;
  INSERT INTO use VALUES ('key', NEW.created_by, 1, NEW.state IN ('pending', 'starting'),
    CAST(NEW.cpu_cores * 1000 + 0.999999 AS INTEGER), NEW.memory_mb)
  ON CONFLICT DO UPDATE SET sandboxes = sandboxes + 1, starting = starting + excluded.starting,
    cpu_millis = cpu_millis + excluded.cpu_millis, memory_mb = memory_mb + excluded.memory_mb;
END;
CREATE TRIGGER use_changed AFTER UPDATE OF state, worker, tenant, created_by, cpu_cores, memory_mb
ON sandbox
WHEN OLD.state NOT IN ('stopped', 'error', 'lost', 'deleted')
  AND NEW.state NOT IN ('stopped', 'error', 'lost', 'deleted')
BEGIN 
  UPDATE use SET sandboxes = sandboxes - 1,
    starting = starting - (OLD.state IN ('pending', 'starting')),
    cpu_millis = cpu_millis - CAST(OLD.cpu_cores * 1000 + 0.999999 AS INTEGER), memory_mb = memory_mb - OLD.memory_mb
  WHERE kind = 'worker' AND id = OLD.worker;
  UPDATE use SET sandboxes = sandboxes - 1,
    starting = starting - (OLD.state IN ('pending', 'starting')),
    cpu_millis = cpu_millis - CAST(OLD.cpu_cores * 1000 + 0.999999 AS INTEGER), memory_mb = memory_mb - OLD.memory_mb
  WHERE kind = 'tenant' AND id = OLD.tenant;
  UPDATE use SET sandboxes = sandboxes - 1,
    starting = starting - (OLD.state IN ('pending', 'starting')),
    cpu_millis = cpu_millis - CAST(OLD.cpu_cores * 1000 + 0.999999 AS INTEGER), memory_mb = memory_mb - OLD.memory_mb
  WHERE kind = 'key' AND id = OLD.created_by; 
  INSERT INTO use VALUES ('worker', NEW.worker, 1, NEW.state IN ('pending', 'starting'),
    CAST(NEW.cpu_cores * 1000 + 0.999999 AS INTEGER), NEW.memory_mb)
  ON CONFLICT DO UPDATE SET sandboxes = sandboxes + 1, starting = starting + excluded.starting,
    cpu_millis = cpu_millis + excluded.cpu_millis, memory_mb = memory_mb + excluded.memory_mb;
  INSERT INTO use VALUES ('tenant', NEW.tenant, 1, NEW.state IN ('pending', 'starting'),
    CAST(NEW.cpu_cores * 1000 + 0.999999 AS INTEGER), NEW.memory_mb)
  ON CONFLICT DO UPDATE SET sandboxes = sandboxes + 1, starting = starting + excluded.starting,
    cpu_millis = cpu_millis + excluded.cpu_millis, memory_mb = memory_mb + excluded.memory_mb;
  INSERT INTO use VALUES ('key', NEW.created_by, 1, NEW.state IN ('pending', 'starting'),
    CAST(NEW.cpu_cores * 1000 + 0.999999 AS INTEGER), NEW.memory_mb)
  ON CONFLICT DO UPDATE SET sandboxes = sandboxes + 1, starting = starting + excluded.starting,
    cpu_millis = cpu_millis + excluded.cpu_millis, memory_mb = memory_mb + excluded.memory_mb;
END;
CREATE TRIGGER use_given_back AFTER UPDATE OF state ON sandbox
WHEN OLD.state NOT IN ('stopped', 'error', 'lost', 'deleted')
  AND NEW.state IN ('stopped', 'error', 'lost', 'deleted')
BEGIN 
  UPDATE use SET sandboxes = sandboxes - 1,
    starting = starting - (OLD.state IN ('pending', 'starting')),
    cpu_millis = cpu_millis - CAST(OLD.cpu_cores * 1000 + 0.999999 AS INTEGER), memory_mb = memory_mb - OLD.memory_mb
  WHERE kind = 'worker' AND id = OLD.worker;
  UPDATE use SET sandboxes = sandboxes - 1,
    starting = starting - (OLD.state IN ('pending', 'starting')),
    cpu_millis = cpu_millis - CAST(OLD.cpu_cores * 1000 + 0.999999 AS INTEGER), memory_mb = memory_mb - OLD.memory_mb
  WHERE kind = 'tenant' AND id = OLD.tenant;
  UPDATE use SET sandboxes = sandboxes - 1,
    starting = starting - (OLD.state IN ('pending', 'starting')),
    cpu_millis = cpu_millis - CAST(OLD.cpu_cores * 1000 + 0.999999 AS INTEGER), memory_mb = memory_mb - OLD.memory_mb
  WHERE kind = 'key' AND id = OLD.created_by;
END;
CREATE TRIGGER use_taken_back AFTER UPDATE OF state ON sandbox
WHEN OLD.state IN ('stopped', 'error', 'lost', 'deleted')
  AND NEW.state NOT IN ('stopped', 'error', 'lost', 'deleted')
BEGIN 
  INSERT INTO use VALUES ('worker', NEW.worker, 1, NEW.state IN ('pending', 'starting'),
    CAST(NEW.cpu_cores * 1000 + 0.999999 AS INTEGER), NEW.memory_mb)
  ON CONFLICT DO UPDATE SET sandboxes = sandboxes + 1, starting = starting + excluded.starting,
    cpu_millis = cpu_millis + excluded.cpu_millis, memory_mb = memory_mb + excluded.memory_mb;
  INSERT INTO use VALUES ('tenant', NEW.tenant, 1, NEW.state IN ('pending', 'starting'),
    CAST(NEW.cpu_cores * 1000 + 0.999999 AS INTEGER), NEW.memory_mb)
  ON CONFLICT DO UPDATE SET sandboxes = sandboxes + 1, starting = starting + excluded.starting,
    cpu_millis = cpu_millis + excluded.cpu_millis, memory_mb = memory_mb + excluded.memory_mb;
  INSERT INTO use VALUES ('key', NEW.created_by, 1, NEW.state IN ('pending', 'starting'),
    CAST(NEW.cpu_cores * 1000 + 0.999999 AS INTEGER), NEW.memory_mb)
  ON CONFLICT DO UPDATE SET sandboxes = sandboxes + 1, starting = starting + excluded.starting,
    cpu_millis = cpu_millis + excluded.cpu_millis, memory_mb = memory_mb + excluded.memory_mb;
END;
CREATE TRIGGER use_dropped AFTER DELETE ON sandbox
WHEN OLD.state NOT IN ('stopped', 'error', 'lost', 'deleted')
BEGIN 
  UPDATE use SET sandboxes = sandboxes - 1,
    starting = starting - (OLD.state IN ('pending', 'starting')),
    cpu_millis = cpu_millis - CAST(OLD.cpu_cores * 1000 + 0.999999 AS INTEGER), memory_mb = memory_mb - OLD.memory_mb
  WHERE kind = 'worker' AND id = OLD.worker;
  UPDATE use SET sandboxes = sandboxes - 1,
    starting = starting - (OLD.state IN ('pending', 'starting')),
    cpu_millis = cpu_millis - CAST(OLD.cpu_cores * 1000 + 0.999999 AS INTEGER), memory_mb = memory_mb - OLD.memory_mb
  WHERE kind = 'tenant' AND id = OLD.tenant;
  UPDATE use SET sandboxes = sandboxes - 1,
    starting = starting - (OLD.state IN ('pending', 'starting')),
    cpu_millis = cpu_millis - CAST(OLD.cpu_cores * 1000 + 0.999999 AS INTEGER), memory_mb = memory_mb - OLD.memory_mb
  WHERE kind = 'key' AND id = OLD.created_by;
END;
)sql";

// Version 3: the audit log is a chain of hashes (audit_chain.h). Rows of older versions are chained
// as they stand. What retention may remove is what lies at or before the anchor, and the anchor can
// only be a row that is there. A sandbox's tokens go with its row.
constexpr const char* kControllerVersion3 = R"sql(
ALTER TABLE audit ADD COLUMN request TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN hash TEXT NOT NULL DEFAULT '';
DROP TRIGGER audit_keeps_rows;
WITH RECURSIVE chain (seq, hash) AS (
  SELECT 0, ''
  UNION ALL
  SELECT a.seq, audit_hash(chain.hash, a.seq, a.time, a.tenant, a.actor, a.action, a.target,
                           a.outcome, a.address, a.request)
  FROM chain JOIN audit AS a ON a.seq = (SELECT min(seq) FROM audit WHERE seq > chain.seq)
)
UPDATE audit SET hash = chain.hash FROM chain WHERE audit.seq = chain.seq;
CREATE TRIGGER audit_keeps_rows BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'audit_append_only'); END;
CREATE UNIQUE INDEX audit_hash_once ON audit (hash);
INSERT INTO setting SELECT 'audit_head', seq || ' ' || hash FROM audit ORDER BY seq DESC LIMIT 1;

CREATE TRIGGER sandbox_tokens_purged AFTER DELETE ON sandbox
BEGIN DELETE FROM credential WHERE sandbox = OLD.id; END;

DROP TRIGGER audit_loses_none;
CREATE TRIGGER audit_loses_a_prefix BEFORE DELETE ON audit
WHEN OLD.seq > coalesce(
  (SELECT CAST(value AS INTEGER) FROM setting WHERE name = 'audit_anchor'), 0)
BEGIN SELECT RAISE(ABORT, 'audit_append_only'); END;
CREATE TRIGGER audit_anchor_is_a_row BEFORE INSERT ON setting
WHEN NEW.name = 'audit_anchor' AND NOT EXISTS (
  SELECT 1 FROM audit WHERE seq = CAST(NEW.value AS INTEGER) AND seq || ' ' || hash = NEW.value)
BEGIN SELECT RAISE(ABORT, 'audit_append_only'); END;
)sql";

// Version 4: walls are narrowed and secrets lent while a sandbox runs. The kinds of deliveries are
// checked by their table, which is made anew for that; their numbers go on where they were.
constexpr const char* kControllerVersion4 = R"sql(
ALTER TABLE sandbox ADD COLUMN narrowing TEXT NOT NULL DEFAULT '';
ALTER TABLE sandbox ADD COLUMN narrowing_hash TEXT NOT NULL DEFAULT '';
ALTER TABLE sandbox ADD COLUMN narrowing_state TEXT NOT NULL DEFAULT ''
  CHECK (narrowing_state IN ('', 'pending', 'in_force'));
ALTER TABLE sandbox ADD COLUMN structure TEXT NOT NULL DEFAULT '';

DROP TRIGGER sandbox_purged;
CREATE TABLE delivery_next (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  worker TEXT NOT NULL,
  sandbox TEXT NOT NULL,
  generation INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('create', 'remove', 'renew', 'narrow', 'lend')),
  state TEXT NOT NULL CHECK (state IN ('queued', 'done', 'failed')),
  attempts INTEGER NOT NULL,
  created INTEGER NOT NULL,
  not_before INTEGER NOT NULL,
  trace TEXT NOT NULL DEFAULT ''
) STRICT;
INSERT INTO delivery_next SELECT seq, worker, sandbox, generation, kind, state, attempts, created,
                                 not_before, trace FROM delivery;
DELETE FROM sqlite_sequence WHERE name = 'delivery_next';
INSERT INTO sqlite_sequence SELECT 'delivery_next', seq FROM sqlite_sequence WHERE name = 'delivery';
DROP TABLE delivery;
ALTER TABLE delivery_next RENAME TO delivery;
CREATE INDEX delivery_queued ON delivery (worker, seq) WHERE state = 'queued';
CREATE INDEX delivery_sandbox ON delivery (sandbox);

CREATE TABLE secret (
  sandbox TEXT NOT NULL,
  name TEXT NOT NULL,
  domain TEXT NOT NULL,
  place TEXT NOT NULL CHECK (place IN ('header', 'basic', 'query')),
  key TEXT NOT NULL,
  sealed TEXT NOT NULL CHECK (sealed <> ''),
  expires INTEGER,
  PRIMARY KEY (sandbox, name)
) STRICT, WITHOUT ROWID;
-- A lost sandbox may come back, and its worker is then told its secrets again.
CREATE TRIGGER secrets_of_ended AFTER UPDATE OF state ON sandbox
WHEN NEW.state IN ('stopped', 'error', 'deleted')
BEGIN DELETE FROM secret WHERE sandbox = NEW.id; END;
CREATE TRIGGER sandbox_purged AFTER DELETE ON sandbox
BEGIN
  DELETE FROM idempotency WHERE sandbox = OLD.id;
  DELETE FROM delivery WHERE sandbox = OLD.id;
  DELETE FROM secret WHERE sandbox = OLD.id;
END;
)sql";

constexpr const char* kJournalVersion1 = R"sql(
CREATE TABLE journal (
  sandbox TEXT NOT NULL PRIMARY KEY,
  tenant TEXT NOT NULL CHECK (tenant <> ''),
  generation INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('creating', 'running', 'removing', 'ended')),
  reason TEXT NOT NULL,
  policy_hash TEXT NOT NULL,
  expires INTEGER NOT NULL,
  updated INTEGER NOT NULL
) STRICT;
)sql";

constexpr const char* kControllerSteps[] = {kControllerVersion1, kControllerVersion2,
                                            kControllerVersion3, kControllerVersion4};
constexpr const char* kJournalSteps[] = {kJournalVersion1};

}  // namespace

const Schema kControllerSchema{.application_id = 0x53424b43, .steps = kControllerSteps};
const Schema kJournalSchema{.application_id = 0x53424b4a, .steps = kJournalSteps};

}  // namespace sandboxkit::store
