-- The schema's version is in the table schema_version.

CREATE TABLE schema_version (version BIGINT NOT NULL);
INSERT INTO schema_version VALUES (0);

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value BYTEA NOT NULL
);

-- One row for each campaign: its money, the end of its log, and its encoded state.
CREATE TABLE campaigns (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    seq BIGINT NOT NULL,
    head BYTEA NOT NULL,
    budget BIGINT NOT NULL CHECK (budget >= 0),
    reserved BIGINT NOT NULL CHECK (reserved >= 0),
    committed BIGINT NOT NULL CHECK (committed >= 0),
    state BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    CHECK (reserved + committed <= budget)
);

-- The event logs. The rows of campaigns and offers can be rebuilt from them.
CREATE TABLE events (
    campaign BIGINT NOT NULL REFERENCES campaigns (number),
    seq BIGINT NOT NULL,
    body BYTEA NOT NULL,
    hash BYTEA NOT NULL,
    PRIMARY KEY (campaign, seq)
);

CREATE TABLE offers (
    campaign BIGINT NOT NULL REFERENCES campaigns (number),
    n BIGINT NOT NULL,
    player BYTEA NOT NULL,
    state BIGINT NOT NULL,
    due BIGINT NOT NULL,
    cost BIGINT NOT NULL CHECK (cost >= 0),
    body BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    PRIMARY KEY (campaign, n)
);

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
    request BYTEA NOT NULL,
    status BIGINT NOT NULL,
    body BYTEA NOT NULL,
    at BIGINT NOT NULL,
    digest BYTEA NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX answers_by_age ON answers (at);

CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    campaign TEXT,
    hash BYTEA NOT NULL,
    created BIGINT NOT NULL,
    revoked BIGINT,
    digest BYTEA NOT NULL
);
