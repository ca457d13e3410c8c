-- compatible-from: 13
-- What each user has uploaded: the hashes of such files begin with user-<number>-.
CREATE INDEX files_by_uploader ON files(split_part(sha256, '-', 2)) WHERE sha256 LIKE 'user-%';
