-- A random salt for each player of a campaign. The stored hash of a player depends on it, so that it
-- cannot be linked to the player's id any more once the salt is deleted.
CREATE TABLE players (
    lookup BYTEA NOT NULL,
    campaign BIGINT NOT NULL REFERENCES campaigns (number),
    salt BYTEA NOT NULL,
    digest BYTEA NOT NULL,
    PRIMARY KEY (lookup, campaign)
);

-- Existing campaigns keep their hashes, which have no salt.
INSERT INTO players SELECT '', number, '', '' FROM campaigns;
