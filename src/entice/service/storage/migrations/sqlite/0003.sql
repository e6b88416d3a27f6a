-- A random salt for each player of a campaign. The stored hash of a player depends on it, so that it
-- cannot be linked to the player's id any more once the salt is deleted.
CREATE TABLE players (
    lookup BLOB NOT NULL,
    campaign INTEGER NOT NULL REFERENCES campaigns (number),
    salt BLOB NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (lookup, campaign)
) STRICT, WITHOUT ROWID;

-- Existing campaigns keep their hashes, which have no salt.
INSERT INTO players SELECT x'', number, x'', x'' FROM campaigns;
