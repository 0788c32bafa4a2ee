//! The names of methods in the documents of 2009, 2012 and 2014, and what they are here.

/// A name of one of the documents.
#[derive(Clone, Copy, Debug)]
pub struct Alias {
    /// The name as that document lists or recommends it.
    pub name: &'static str,
    /// The year of the document.
    pub document: u16,
    /// The method under this grammar, without a block where the document tried them all.
    pub method: &'static str,
    /// The platform of the list that has it: `Linux`, `OS X` or `both`; for 2012, `FreeBSD`.
    pub listed: &'static str,
    /// A remark.
    pub note: &'static str,
}

const GETC: &str = "getc of both files in turn";
const EXTRA_READ: &str = "each file is read once first; its bytes are not used";
const BLOCKS: &str = "the document does not say how blocks were compared; memcmp is assumed, because 0.10 s on an SSD leaves \
                      hardly any time for a loop over bytes";

const FADVISE: &str = "its fadvise was SEQUENTIAL and NOREUSE together";
const MAPPED_DIRECT: &str = "a map of an O_DIRECT descriptor is a plain map, so `direct` has no effect";

/// Rows of `YEAR "LIST": "name" = "method", note;`.
macro_rules! aliases {
    ($($document:literal $listed:literal: $name:literal = $method:literal $(, $note:expr)?;)+) => {
        &[$(Alias {
            name: $name,
            document: $document,
            method: $method,
            listed: $listed,
            note: [$($note,)? ""][0],
        }),+]
    };
}

/// Every name of the 2014 document's lists and recommendations, the programs of the 2009 document, and how cmp compared in
/// 2012.
pub const ALIASES: &[Alias] = aliases! {
    2014 "both": "read_plain" = "read/sync";
    2014 "OS X": "read_nocache" = "read/sync,direct";
    2014 "OS X": "read_rdahead" = "read/sync,hint=rdahead";
    2014 "OS X": "read_rdadvise" = "read/sync,hint=rdadvise";
    2014 "OS X": "read_aio_nocache" = "read/posix-aio,direct";
    2014 "OS X": "read_aio_rdahead" = "read/posix-aio,hint=rdahead";
    2014 "OS X": "read_aio_rdadvise" = "read/posix-aio,hint=rdadvise";
    2014 "OS X": "read_async_nocache" = "read/double-buffer,direct";
    2014 "OS X": "read_async_rdahead" = "read/double-buffer,hint=rdahead";
    2014 "OS X": "read_async_rdadvise" = "read/double-buffer,hint=rdadvise";
    2014 "OS X": "read_mmap_rdahead" = "read/mmap,hint=rdahead";
    2014 "OS X": "read_mmap_rdadvise" = "read/mmap,hint=rdadvise";
    2014 "Linux": "read_direct" = "read/sync,direct";
    2014 "Linux": "read_fadvise" = "read/sync,hint=sequential-noreuse", FADVISE;
    2014 "Linux": "aio_read_direct" = "read/posix-aio,direct", "POSIX AIO; elsewhere the document says read_aio_*";
    2014 "Linux": "aio_read_fadvise" = "read/posix-aio,hint=sequential-noreuse", FADVISE;
    2014 "Linux": "read_async_plain" = "read/double-buffer";
    2014 "Linux": "read_async_direct" = "read/double-buffer,direct";
    2014 "Linux": "read_async_fadvise" = "read/double-buffer,hint=sequential-noreuse", FADVISE;
    2014 "both": "read_mmap_plain" = "read/mmap";
    2014 "Linux": "read_mmap_fadvise" = "read/mmap,hint=sequential", "for a map the advice is madvise(2)'s";
    2014 "both": "write_plain" = "write/sync";
    2014 "OS X": "write_nocache" = "write/sync,direct";
    2014 "both": "write_preallocate" = "write/sync,preallocate=allocate";
    2014 "OS X": "write_preallocate_truncate" = "write/sync,preallocate=both";
    2014 "OS X": "write_preallocate_truncate_nocache" = "write/sync,direct,preallocate=both";
    2014 "OS X": "async_write_preallocate_truncate_nocache" = "write/double-buffer,direct,preallocate=both";
    2014 "OS X": "write_async_preallocate_truncate_nocache" = "write/double-buffer,direct,preallocate=both",
        "recommended under this name, listed as async_write_…";
    2014 "OS X": "write_mmap" = "write/mmap,preallocate=truncate", "recommended for Linux, but not in the Linux list";
    2014 "Linux": "write_direct" = "write/sync,direct";
    2014 "Linux": "write_truncate" = "write/sync,preallocate=truncate";
    2014 "Linux": "write_direct_preallocate" = "write/sync,direct,preallocate=allocate";
    2014 "Linux": "write_direct_truncate" = "write/sync,direct,preallocate=truncate";
    2014 "Linux": "write_async_plain" = "write/double-buffer";
    2014 "Linux": "write_async_direct" = "write/double-buffer,direct";
    2014 "Linux": "write_async_preallocate" = "write/double-buffer,preallocate=allocate";
    2014 "Linux": "write_async_truncate" = "write/double-buffer,preallocate=truncate";
    2014 "Linux": "write_async_direct_preallocate" = "write/double-buffer,direct,preallocate=allocate";
    2014 "Linux": "write_async_direct_truncate" = "write/double-buffer,direct,preallocate=truncate";
    2014 "Linux": "mmap_preallocate" = "write/mmap,preallocate=allocate",
        "listed twice; the second is probably mmap_truncate";
    2014 "Linux": "mmap_truncate" = "write/mmap,preallocate=truncate", "not listed; see mmap_preallocate";
    2014 "Linux": "mmap_preallocate_direct" = "write/mmap,preallocate=allocate", MAPPED_DIRECT;
    2014 "Linux": "mmap_truncate_direct" = "write/mmap,preallocate=truncate", MAPPED_DIRECT;
    2014 "both": "copy_plain" = "copy/sync";
    2014 "OS X": "copy_nocache" = "copy/sync,direct";
    2014 "OS X": "copy_rdahead_preallocate" = "copy/sync,hint=rdahead,preallocate=allocate";
    2014 "OS X": "copy_rdadvise_preallocate" = "copy/sync,hint=rdadvise,preallocate=allocate";
    2014 "OS X": "copy_mmap" = "copy/mmap";
    2014 "Linux": "copy_direct" = "copy/sync,direct";
    2014 "Linux": "copy_preallocate" = "copy/sync,preallocate=allocate";
    2014 "Linux": "copy_mmap_plain" = "copy/mmap";
    2014 "Linux": "copy_mmap_fadvise" = "copy/mmap,hint=sequential", "for a map the advice is madvise(2)'s";
    2014 "Linux": "copy_splice" = "copy/splice";
    2014 "Linux": "copy_splice_preallocate" = "copy/splice,preallocate=allocate";
    2014 "Linux": "copy_splice_preallocate_fadvise" = "copy/splice,hint=sequential-noreuse,preallocate=allocate",
        FADVISE;
    2014 "Linux": "copy_splice_fadvise" = "copy/splice,hint=sequential-noreuse", FADVISE;
    2014 "Linux": "copy_sendfile" = "copy/sendfile";
    2014 "Linux": "copy_sendfile_preallocate" = "copy/sendfile,preallocate=allocate";
    2014 "Linux": "copy_sendfile_preallocate_fadvise" = "copy/sendfile,hint=sequential-noreuse,preallocate=allocate",
        FADVISE;
    2014 "Linux": "copy_sendfile_fadvise" = "copy/sendfile,hint=sequential-noreuse", FADVISE;
    2009 "Linux": "simple-compare" = "compare/stdio", GETC;
    2009 "Linux": "compare-with-extra-read" = "compare/stdio,order=preload", EXTRA_READ;
    2009 "Linux": "block-compare-4k" = "compare/sync,block=4K", BLOCKS;
    2009 "Linux": "block-compare-with-extra-read-4k" = "compare/sync,block=4K,order=preload", EXTRA_READ;
    2009 "Linux": "block-compare-1M" = "compare/sync,block=1M", BLOCKS;
    2009 "Linux": "block-compare-with-extra-read-1M" = "compare/sync,block=1M,order=preload", EXTRA_READ;
    2009 "Linux": "unlocked-compare" = "compare/stdio-unlocked", "getc_unlocked";
    2009 "Linux": "block-compare-100M" = "compare/sync,block=100000000",
        "each file is read whole, one after the other: the block is as large as the file";
    2012 "FreeBSD": "cmp-2012" = "compare/mmap,block=8M,differ=linewise,identity=ignore,holes=ignore",
        "`cmp FILE FILE`: both mapped in successive chunks of 8 MiB";
    2012 "FreeBSD": "cmp-2012-stdin" = "compare/stdio,differ=linewise,identity=ignore,holes=ignore",
        "`cmp - FILE`: getc of both";
};
