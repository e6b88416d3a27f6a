-- The schema's version is in PRAGMA user_version.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT;

-- One row for each campaign: its money, the end of its log, and its books as bytes.
CREATE TABLE campaigns (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    seq INTEGER NOT NULL,
    head BLOB NOT NULL,
    budget INTEGER NOT NULL CHECK (budget >= 0),
    reserved INTEGER NOT NULL CHECK (reserved >= 0),
    committed INTEGER NOT NULL CHECK (committed >= 0),
    state BLOB NOT NULL,
    digest BLOB NOT NULL,
    CHECK (reserved + committed <= budget)
) STRICT;

-- The truth: all else can be made again from it.
CREATE TABLE events (
    campaign INTEGER NOT NULL REFERENCES campaigns (number),
    seq INTEGER NOT NULL,
    body BLOB NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (campaign, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE offers (
    campaign INTEGER NOT NULL REFERENCES campaigns (number),
    n INTEGER NOT NULL,
    player BLOB NOT NULL,
    state INTEGER NOT NULL,
    due INTEGER NOT NULL,
    cost INTEGER NOT NULL CHECK (cost >= 0),
    body BLOB NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (campaign, n)
) STRICT, WITHOUT ROWID;

-- A player has one live offer at most.
CREATE UNIQUE INDEX live_offers ON offers (campaign, player) WHERE state = 0;
-- What may expire: offers that are open, sales that are not rated.
CREATE INDEX due_offers ON offers (campaign, due) WHERE state <= 1;
-- What counts against a player's cap, and against the budget.
CREATE INDEX paid_offers ON offers (campaign, player) WHERE cost > 0;

-- Answers under the idempotency keys of those who asked.
CREATE TABLE answers (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    request BLOB NOT NULL,
    status INTEGER NOT NULL,
    body BLOB NOT NULL,
    at INTEGER NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX answers_by_age ON answers (at);

CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    campaign TEXT,
    hash BLOB NOT NULL,
    created INTEGER NOT NULL,
    revoked INTEGER,
    digest BLOB NOT NULL
) STRICT;
