//! The names of methods in the documents of 2009, 2012 and 2014, and what they are here.

/// The sixteen buffer sizes of the 2014 document, in bytes.
pub const BLOCKS_2014: [u64; 16] = [
    4 << 10,
    8 << 10,
    12 << 10,
    16 << 10,
    24 << 10,
    32 << 10,
    40 << 10,
    48 << 10,
    56 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    64 << 20,
    256 << 20,
];

/// A name of one of the documents.
#[derive(Clone, Copy, Debug)]
pub struct Alias {
    /// The name as that document lists or recommends it.
    pub name: &'static str,
    /// The year of the document.
    pub document: u16,
    /// The method under this grammar, without a block where the document tried them all.
    pub method: &'static str,
    /// The platform whose list it stands in: `Linux`, `OS X` or `both`; of 2012 `FreeBSD`.
    pub listed: &'static str,
    /// What is to be said about it.
    pub note: &'static str,
}

const fn alias(listed: &'static str, name: &'static str, method: &'static str) -> Alias {
    noted(listed, name, method, "")
}

const fn noted(listed: &'static str, name: &'static str, method: &'static str, note: &'static str) -> Alias {
    Alias {
        name,
        document: 2014,
        method,
        listed,
        note,
    }
}

/// A program of the 2009 document.
const fn program(name: &'static str, method: &'static str, note: &'static str) -> Alias {
    Alias {
        name,
        document: 2009,
        method,
        listed: "Linux",
        note,
    }
}

/// What cmp did in 2012.
const fn of_cmp(name: &'static str, method: &'static str, note: &'static str) -> Alias {
    Alias {
        name,
        document: 2012,
        method,
        listed: "FreeBSD",
        note,
    }
}

const GETC: &str = "getc of both files in turn";
const EXTRA_READ: &str = "each file is read once before, and nothing done with it";
const BLOCKS: &str = "how it looked at a pair of blocks is not told: memcmp is assumed, for 0.10 s on an SSD leave hardly \
    any time for a loop over bytes";

const FADVISE: &str = "its fadvise was SEQUENTIAL and NOREUSE together";
const MAPPED_DIRECT: &str = "a map of an O_DIRECT descriptor is a plain map, so `direct` has no meaning here";

/// Every name of the 2014 document's lists and recommendations, the programs of the 2009 document, and how cmp compared in
/// 2012.
pub const ALIASES: &[Alias] = &[
    alias("both", "read_plain", "read/sync"),
    alias("OS X", "read_nocache", "read/sync,direct"),
    alias("OS X", "read_rdahead", "read/sync,hint=rdahead"),
    alias("OS X", "read_rdadvise", "read/sync,hint=rdadvise"),
    alias("OS X", "read_aio_nocache", "read/posix-aio,direct"),
    alias("OS X", "read_aio_rdahead", "read/posix-aio,hint=rdahead"),
    alias("OS X", "read_aio_rdadvise", "read/posix-aio,hint=rdadvise"),
    alias("OS X", "read_async_nocache", "read/double-buffer,direct"),
    alias("OS X", "read_async_rdahead", "read/double-buffer,hint=rdahead"),
    alias("OS X", "read_async_rdadvise", "read/double-buffer,hint=rdadvise"),
    alias("OS X", "read_mmap_rdahead", "read/mmap,hint=rdahead"),
    alias("OS X", "read_mmap_rdadvise", "read/mmap,hint=rdadvise"),
    alias("Linux", "read_direct", "read/sync,direct"),
    noted("Linux", "read_fadvise", "read/sync,hint=sequential-noreuse", FADVISE),
    noted(
        "Linux",
        "aio_read_direct",
        "read/posix-aio,direct",
        "POSIX AIO; elsewhere the document says read_aio_*",
    ),
    noted(
        "Linux",
        "aio_read_fadvise",
        "read/posix-aio,hint=sequential-noreuse",
        FADVISE,
    ),
    alias("Linux", "read_async_plain", "read/double-buffer"),
    alias("Linux", "read_async_direct", "read/double-buffer,direct"),
    noted(
        "Linux",
        "read_async_fadvise",
        "read/double-buffer,hint=sequential-noreuse",
        FADVISE,
    ),
    alias("both", "read_mmap_plain", "read/mmap"),
    noted(
        "Linux",
        "read_mmap_fadvise",
        "read/mmap,hint=sequential",
        "for a map the advice is madvise(2)'s",
    ),
    alias("both", "write_plain", "write/sync"),
    alias("OS X", "write_nocache", "write/sync,direct"),
    alias("both", "write_preallocate", "write/sync,preallocate=allocate"),
    alias("OS X", "write_preallocate_truncate", "write/sync,preallocate=both"),
    alias(
        "OS X",
        "write_preallocate_truncate_nocache",
        "write/sync,direct,preallocate=both",
    ),
    alias(
        "OS X",
        "async_write_preallocate_truncate_nocache",
        "write/double-buffer,direct,preallocate=both",
    ),
    noted(
        "OS X",
        "write_async_preallocate_truncate_nocache",
        "write/double-buffer,direct,preallocate=both",
        "recommended under this name, listed as async_write_…",
    ),
    noted(
        "OS X",
        "write_mmap",
        "write/mmap,preallocate=truncate",
        "recommended for Linux, but not in the Linux list",
    ),
    alias("Linux", "write_direct", "write/sync,direct"),
    alias("Linux", "write_truncate", "write/sync,preallocate=truncate"),
    alias(
        "Linux",
        "write_direct_preallocate",
        "write/sync,direct,preallocate=allocate",
    ),
    alias(
        "Linux",
        "write_direct_truncate",
        "write/sync,direct,preallocate=truncate",
    ),
    alias("Linux", "write_async_plain", "write/double-buffer"),
    alias("Linux", "write_async_direct", "write/double-buffer,direct"),
    alias(
        "Linux",
        "write_async_preallocate",
        "write/double-buffer,preallocate=allocate",
    ),
    alias(
        "Linux",
        "write_async_truncate",
        "write/double-buffer,preallocate=truncate",
    ),
    alias(
        "Linux",
        "write_async_direct_preallocate",
        "write/double-buffer,direct,preallocate=allocate",
    ),
    alias(
        "Linux",
        "write_async_direct_truncate",
        "write/double-buffer,direct,preallocate=truncate",
    ),
    noted(
        "Linux",
        "mmap_preallocate",
        "write/mmap,preallocate=allocate",
        "listed twice; the second is probably mmap_truncate",
    ),
    noted(
        "Linux",
        "mmap_truncate",
        "write/mmap,preallocate=truncate",
        "not listed; see mmap_preallocate",
    ),
    noted(
        "Linux",
        "mmap_preallocate_direct",
        "write/mmap,preallocate=allocate",
        MAPPED_DIRECT,
    ),
    noted(
        "Linux",
        "mmap_truncate_direct",
        "write/mmap,preallocate=truncate",
        MAPPED_DIRECT,
    ),
    alias("both", "copy_plain", "copy/sync"),
    alias("OS X", "copy_nocache", "copy/sync,direct"),
    alias(
        "OS X",
        "copy_rdahead_preallocate",
        "copy/sync,hint=rdahead,preallocate=allocate",
    ),
    alias(
        "OS X",
        "copy_rdadvise_preallocate",
        "copy/sync,hint=rdadvise,preallocate=allocate",
    ),
    alias("OS X", "copy_mmap", "copy/mmap"),
    alias("Linux", "copy_direct", "copy/sync,direct"),
    alias("Linux", "copy_preallocate", "copy/sync,preallocate=allocate"),
    alias("Linux", "copy_mmap_plain", "copy/mmap"),
    noted(
        "Linux",
        "copy_mmap_fadvise",
        "copy/mmap,hint=sequential",
        "for a map the advice is madvise(2)'s",
    ),
    alias("Linux", "copy_splice", "copy/splice"),
    alias("Linux", "copy_splice_preallocate", "copy/splice,preallocate=allocate"),
    noted(
        "Linux",
        "copy_splice_preallocate_fadvise",
        "copy/splice,hint=sequential-noreuse,preallocate=allocate",
        FADVISE,
    ),
    noted(
        "Linux",
        "copy_splice_fadvise",
        "copy/splice,hint=sequential-noreuse",
        FADVISE,
    ),
    alias("Linux", "copy_sendfile", "copy/sendfile"),
    alias(
        "Linux",
        "copy_sendfile_preallocate",
        "copy/sendfile,preallocate=allocate",
    ),
    noted(
        "Linux",
        "copy_sendfile_preallocate_fadvise",
        "copy/sendfile,hint=sequential-noreuse,preallocate=allocate",
        FADVISE,
    ),
    noted(
        "Linux",
        "copy_sendfile_fadvise",
        "copy/sendfile,hint=sequential-noreuse",
        FADVISE,
    ),
    program("simple-compare", "compare/stdio", GETC),
    program("compare-with-extra-read", "compare/stdio,order=preload", EXTRA_READ),
    program("block-compare-4k", "compare/sync,block=4K", BLOCKS),
    program(
        "block-compare-with-extra-read-4k",
        "compare/sync,block=4K,order=preload",
        EXTRA_READ,
    ),
    program("block-compare-1M", "compare/sync,block=1M", BLOCKS),
    program(
        "block-compare-with-extra-read-1M",
        "compare/sync,block=1M,order=preload",
        EXTRA_READ,
    ),
    program("unlocked-compare", "compare/stdio-unlocked", "getc_unlocked"),
    program(
        "block-compare-100M",
        "compare/sync,block=100000000",
        "both files whole, one after the other: a block is as large as its files",
    ),
    of_cmp(
        "cmp-2012",
        "compare/mmap,block=8M,differ=linewise,identity=ignore,holes=ignore",
        "`cmp FILE FILE`: both mapped in chunks of 8 MiB, which move on",
    ),
    of_cmp(
        "cmp-2012-stdin",
        "compare/stdio,differ=linewise,identity=ignore,holes=ignore",
        "`cmp - FILE`: getc of both",
    ),
];
