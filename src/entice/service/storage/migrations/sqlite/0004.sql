-- Webhooks: the addresses that get a campaign's events, and the last event that each one has got.
CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    campaign INTEGER NOT NULL REFERENCES campaigns (number),
    url TEXT NOT NULL,
    created INTEGER NOT NULL,
    digest BLOB NOT NULL,
    delivered INTEGER NOT NULL,
    ping INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    failing_since INTEGER,
    next_attempt INTEGER NOT NULL,
    paused INTEGER,
    last_success INTEGER,
    last_error TEXT,
    last_error_at INTEGER,
    UNIQUE (campaign, url)
) STRICT;

-- One row: the process that delivers to the webhooks, and how often it has renewed its lease.
CREATE TABLE webhook_lease (
    holder TEXT NOT NULL,
    renewals INTEGER NOT NULL
) STRICT;
INSERT INTO webhook_lease VALUES ('', 0);
