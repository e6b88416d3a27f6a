-- The schema's version is in PRAGMA user_version.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT;

-- One row for each campaign: its money, the end of its log, and its encoded state.
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

-- The event logs. The rows of campaigns and offers can be rebuilt from them.
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

-- A player has at most one open offer.
CREATE UNIQUE INDEX live_offers ON offers (campaign, player) WHERE state = 0;
-- Offers with a deadline: open ones, and accepted ones without a rating.
CREATE INDEX due_offers ON offers (campaign, due) WHERE state <= 1;
-- Offers that count against a player's cap and against the budget.
CREATE INDEX paid_offers ON offers (campaign, player) WHERE cost > 0;

-- Stored responses, by API key and idempotency key.
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
