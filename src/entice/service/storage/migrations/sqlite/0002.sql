-- The checksums of keys and answers become keyed. That takes the secret, which SQL does not have:
-- the service replaces the checksums of schema 1 at its next start, and deletes this row.
INSERT INTO meta (name, value) VALUES ('unsealed', x'01');
