-- SPDX-License-Identifier: MIT
PRAGMA cache_size = 2000;
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, size INTEGER, body BLOB);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120000)
INSERT INTO item SELECT i, printf('name-%05d', (i * 7919) % 100003), (i * 31) % 4099,
                        zeroblob((i * 13) % 97) FROM n;
COMMIT;
CREATE INDEX by_name ON item(name);
CREATE INDEX by_size ON item(size, name);
UPDATE item SET name = name || '-' || size WHERE size % 7 = 0;
DELETE FROM item WHERE id % 5 = 0;
SELECT count(*), sum(size), sum(length(body)), min(name), max(name) FROM item;
SELECT size, count(*) AS c, group_concat(substr(name, 6, 3)) FROM item
 GROUP BY size ORDER BY c DESC, size LIMIT 5;
SELECT count(*) FROM item a JOIN item b ON a.name = b.name AND a.id < b.id;
SELECT sum(json_extract(json_object('id', id, 'name', name), '$.id')) FROM item;
VACUUM;
PRAGMA integrity_check;
