-- Webhooks: the addresses that get a campaign's events, and the last event that each one has got.
CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    campaign BIGINT NOT NULL REFERENCES campaigns (number),
    url TEXT NOT NULL,
    created BIGINT NOT NULL,
    digest BYTEA NOT NULL,
    delivered BIGINT NOT NULL,
    ping BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    failing_since BIGINT,
    next_attempt BIGINT NOT NULL,
    paused BIGINT,
    last_success BIGINT,
    last_error TEXT,
    last_error_at BIGINT,
    UNIQUE (campaign, url)
);

-- One row: the process that delivers to the webhooks, and how often it has renewed its lease.
CREATE TABLE webhook_lease (
    holder TEXT NOT NULL,
    renewals BIGINT NOT NULL
);
INSERT INTO webhook_lease VALUES ('', 0);
