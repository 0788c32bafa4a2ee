-- Duplicates in the catalogues of many hosts. DuckDB and Spark run this text as it is.
--
-- Skew: nothing is grouped by contents before it was counted by host, and the rows of contents that one host has more than
-- $heavy times get one of 64 salts when they are joined with their count. So no task gets a million equal files. Empty files
-- are counted, and take no further part.
--
-- A digest is that of the whole file where it is known. Where it is not known (is_whole is false), it is that of the beginning.

-- table work/inodes: a row for each file, whatever its names; if it was listed twice, the newest row with the most digests
SELECT host, storage, inode, device, size, mtime_ns, changed_ns, first, whole
FROM (
    SELECT *, blake3 AS whole,
        row_number() OVER (PARTITION BY host, storage, inode
                           ORDER BY changed_ns DESC, CASE WHEN blake3 IS NULL THEN 1 ELSE 0 END) AS place
    FROM catalogue
) AS placed
WHERE place = 1

-- table work/counts: how many files of a host have these digests
SELECT size, first, whole, host, count(*) AS inodes FROM inodes WHERE size >= $min_size GROUP BY size, first, whole, host

-- table work/keys: digests that several files have, and how many of them each host has; those without any digest, too
SELECT * FROM (
    SELECT size, whole AS digest, TRUE AS is_whole, host, CAST(sum(inodes) AS BIGINT) AS here,
        CAST(sum(sum(inodes)) OVER (PARTITION BY size, whole) AS BIGINT) AS inodes
    FROM counts WHERE whole IS NOT NULL GROUP BY size, whole, host
    UNION ALL
    SELECT size, coalesce(first, unhex('')) AS digest, FALSE AS is_whole, host,
        CAST(sum(CASE WHEN whole IS NULL THEN inodes ELSE 0 END) AS BIGINT) AS here,
        CAST(sum(sum(inodes)) OVER (PARTITION BY size, first) AS BIGINT) AS inodes
    FROM counts GROUP BY size, first, host
) AS counted
WHERE here > 0 AND (inodes > 1 OR digest = unhex(''))

-- table work/heavy: what gets salts
SELECT host, size, digest, is_whole, here, inodes FROM keys WHERE here > $heavy

-- table work/members: the files that have such digests
SELECT i.host, i.storage, i.inode, i.device, i.size, i.mtime_ns, i.changed_ns, i.digest, i.is_whole, k.here, k.inodes
FROM (
    SELECT /*+ BROADCAST(h) */ f.*, CASE WHEN h.host IS NULL THEN 0 ELSE abs(f.inode % 64) END AS salt
    FROM (SELECT *, coalesce(whole, first, unhex('')) AS digest, whole IS NOT NULL AS is_whole FROM inodes) AS f
    LEFT JOIN heavy AS h ON h.host = f.host AND h.size = f.size AND h.digest = f.digest AND h.is_whole = f.is_whole
) AS i
JOIN (
    SELECT host, size, digest, is_whole, here, inodes, 0 AS salt FROM keys
    UNION ALL
    SELECT host, size, digest, is_whole, here, inodes, salt FROM heavy CROSS JOIN (SELECT explode(sequence(1, 63)) AS salt) AS salts
) AS k
ON k.host = i.host AND k.size = i.size AND k.digest = i.digest AND k.is_whole = i.is_whole AND k.salt = i.salt

-- table names: all names of these files
SELECT DISTINCT m.*, c.path
FROM members AS m JOIN catalogue AS c ON c.host = m.host AND c.storage = m.storage AND c.inode = m.inode

-- table work/copies: the files that have an equal one, each with one of its names
SELECT host, storage, inode, size, digest, inodes, count(*) AS names, min(path) AS path
FROM names WHERE is_whole GROUP BY host, storage, inode, size, digest, inodes

-- table groups: equal files; the gain is what is freed if one of them stays in the whole fleet
SELECT size, digest AS blake3, count(DISTINCT host) AS hosts, CAST(sum(names) AS BIGINT) AS files, count(*) AS inodes,
    size * (count(*) - 1) AS gain
FROM copies GROUP BY size, digest

-- table spread: the same, by the number of hosts that have equal files
SELECT hosts, count(*) AS groups, CAST(sum(inodes) AS BIGINT) AS inodes, CAST(sum(gain) AS BIGINT) AS gain
FROM groups GROUP BY hosts

-- table hosts: the gain is what is freed if one file of each group stays on the host; shared is what other hosts have, too
SELECT f.host, f.inodes, f.bytes, f.empty_files, coalesce(k.gain, 0) AS gain, coalesce(k.shared, 0) AS shared,
    coalesce(k.wanted, 0) AS wanted, coalesce(k.wanted_bytes, 0) AS wanted_bytes
FROM (
    SELECT host, count(*) AS inodes, CAST(sum(size) AS BIGINT) AS bytes,
        CAST(sum(CASE WHEN size = 0 THEN 1 ELSE 0 END) AS BIGINT) AS empty_files
    FROM inodes GROUP BY host
) AS f
LEFT JOIN (
    SELECT host, CAST(sum(CASE WHEN is_whole THEN size * (here - 1) ELSE 0 END) AS BIGINT) AS gain,
        CAST(sum(CASE WHEN is_whole AND inodes > here THEN size * here ELSE 0 END) AS BIGINT) AS shared,
        CAST(sum(CASE WHEN is_whole THEN 0 ELSE here END) AS BIGINT) AS wanted,
        CAST(sum(CASE WHEN is_whole THEN 0 ELSE size * here END) AS BIGINT) AS wanted_bytes
    FROM keys GROUP BY host
) AS k ON k.host = f.host

-- table pairs: what two hosts both have, a copy of each; not what more than 64 hosts have, which `spread` counts
SELECT host, other, CAST(sum(groups) AS BIGINT) AS groups, CAST(sum(bytes) AS BIGINT) AS bytes
FROM (
    SELECT host, explode(hosts) AS other, groups, bytes
    FROM (
        SELECT hosts, explode(hosts) AS host, count(*) AS groups, CAST(sum(size) AS BIGINT) AS bytes
        FROM (
            SELECT size, array_sort(array_agg(host)) AS hosts
            FROM keys WHERE is_whole GROUP BY size, digest HAVING count(*) BETWEEN 2 AND 64
        ) AS together
        GROUP BY hosts
    ) AS one
) AS two
WHERE host < other GROUP BY host, other

-- table directories: the gain is what is freed in it if one file of each group stays anywhere in the fleet
SELECT host, directory, CAST(sum(here) AS BIGINT) AS inodes, CAST(sum(size * least(here, inodes - 1)) AS BIGINT) AS gain
FROM (
    SELECT host, directory, size, digest, inodes, count(*) AS here
    FROM (
        SELECT host, size, digest, inodes, unhex(regexp_extract(hex(path), '^((?:..)*)2F', 1)) AS directory FROM copies
    ) AS placed
    GROUP BY host, directory, size, digest, inodes
) AS counted
GROUP BY host, directory

-- table wanted: files whose whole digest is needed, because another file has the same size and beginning
SELECT host, path FROM names WHERE NOT is_whole
