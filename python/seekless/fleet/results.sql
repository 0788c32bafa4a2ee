-- What many machines measured. DuckDB runs this text. Each machine counts once: its runs are put together first, by medians.
--
-- `figures` has a row for each method of each contest of each run, as a hub's dump.parquet has. Places are compared within one task:
-- the same operation, cache state, target, durability, size, kind of work, and revision of the trials.

-- table work/machines: the time of a method on a machine, in all of its runs
SELECT kind, model, file_system, kernel, machine, operation, cache, target, durability, work, revision, size_bytes, method,
    median(ln(seconds)) AS log_seconds, median(ratio) AS ratio, count(DISTINCT run) AS runs
FROM figures WHERE seconds > 0 GROUP BY ALL

-- table winners: by kind of storage and task, on how many machines a method was the fastest, and its time over the best one's
SELECT kind, operation, cache, target, durability, work, revision, size_bytes, method,
    CAST(sum(CASE WHEN place = 1 THEN 1 ELSE 0 END) AS BIGINT) AS wins, count(*) AS machines, median(ratio) AS ratio
FROM (
    SELECT *, row_number() OVER (PARTITION BY kind, machine, operation, cache, target, durability, work, revision, size_bytes
                                 ORDER BY ratio, method) AS place
    FROM (
        SELECT kind, machine, operation, cache, target, durability, work, revision, size_bytes, method, median(ratio) AS ratio
        FROM machines GROUP BY ALL
    ) AS each_once
) AS placed
GROUP BY kind, operation, cache, target, durability, work, revision, size_bytes, method

-- table work/typical: how far a machine is from the middle one of its kind at each task: storages of one kind and model
SELECT kind, model, machine, operation, cache, target, durability, work, revision, size_bytes, method, log_seconds,
    log_seconds - median(log_seconds) OVER task AS above, count(*) OVER task AS machines
FROM (
    SELECT kind, model, machine, operation, cache, target, durability, work, revision, size_bytes, method,
        median(log_seconds) AS log_seconds
    FROM machines GROUP BY ALL
) AS each_once
WINDOW task AS (PARTITION BY kind, model, operation, cache, target, durability, work, revision, size_bytes, method)

-- table differences: how far machines of one kind are apart at a task: 1.4826 times the median deviation, as a factor, and the range
SELECT kind, model, operation, cache, target, durability, work, revision, size_bytes, method, count(*) AS machines,
    exp(median(log_seconds)) AS seconds, exp(1.4826 * median(abs(above))) AS factor, exp(max(above) - min(above)) AS range
FROM typical WHERE machines > 1
GROUP BY kind, model, operation, cache, target, durability, work, revision, size_bytes, method

-- table hosts: how much slower a machine is than the middle one of its kind, over all tasks, in robust deviations
SELECT kind, model, machine, tasks, exp(above) AS slower, count(*) OVER its AS machines,
    (above - median(above) OVER its) / nullif(1.4826 * median(deviation) OVER its, 0) AS z
FROM (
    SELECT *, abs(above - median(above) OVER (PARTITION BY kind, model)) AS deviation
    FROM (SELECT kind, model, machine, count(*) AS tasks, median(above) AS above
          FROM typical WHERE machines >= $fewest GROUP BY ALL) AS one
) AS two
WINDOW its AS (PARTITION BY kind, model)

-- table kernels: the logarithm of the ratio of a machine's times under two kernels, the median of all tasks
SELECT o.kind, o.machine, o.kernel AS older, n.kernel AS newer, median(n.log_seconds - o.log_seconds) AS change, count(*) AS tasks
FROM machines AS o JOIN machines AS n USING (kind, model, file_system, machine, operation, cache, target, durability, work, revision,
                                             size_bytes, method)
WHERE list_transform(regexp_extract_all(o.kernel, '[0-9]+'), lambda x: TRY_CAST(x AS BIGINT))
    < list_transform(regexp_extract_all(n.kernel, '[0-9]+'), lambda x: TRY_CAST(x AS BIGINT))
GROUP BY ALL
