//! Calls that are the same on every Unix: resource usage, names, page size.

use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::platform::{MAX_RSS_UNIT_BYTES, peak_memory_bytes};
use crate::support::checked;
use crate::types::{Usage, Whose};

/// The effective user ID: geteuid(2).
#[must_use]
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The groups that files may be given to without being root: getegid(2), getgroups(2).
pub fn effective_groups() -> io::Result<Vec<u32>> {
    let mut groups = rustix::process::getgroups()?;
    groups.push(rustix::process::getegid());
    Ok(groups.into_iter().map(rustix::process::Gid::as_raw).collect())
}

/// Processor time, switches, faults and memory used so far: getrusage(2).
pub fn usage(whose: Whose) -> io::Result<Usage> {
    let who = match whose {
        Whose::Process => libc::RUSAGE_SELF,
        Whose::Children => libc::RUSAGE_CHILDREN,
    };
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the pointer is to memory for one `rusage`, all that the call writes to.
    checked(unsafe { libc::getrusage(who, usage.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it filled the struct.
    let usage = unsafe { usage.assume_init() };
    let max_rss_bytes = count(usage.ru_maxrss) * MAX_RSS_UNIT_BYTES;
    Ok(Usage {
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
        peak_memory_bytes: match whose {
            Whose::Process => peak_memory_bytes().unwrap_or(max_rss_bytes),
            Whose::Children => max_rss_bytes,
        },
    })
}

// `tv_usec` is narrower on macOS; only there does the conversion do anything.
#[allow(clippy::useless_conversion)]
fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(count(time.tv_sec)) + Duration::from_micros(count(time.tv_usec.into()))
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Kills a process group that this process made: kill(2) with SIGKILL. It is not an error if the group has already
/// ended.
pub fn kill_group(leader: u32) -> io::Result<()> {
    let Some(leader) = i32::try_from(leader).ok().and_then(rustix::process::Pid::from_raw) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    match rustix::process::kill_process_group(leader, rustix::process::Signal::KILL) {
        Err(rustix::io::Errno::SRCH) => Ok(()),
        other => Ok(other?),
    }
}

/// Whether this process ignores a signal, as a program started by `nohup` does: sigaction(2). False if unknown.
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    current_action(signal).is_ok_and(|action| action.sa_sigaction == libc::SIG_IGN)
}

pub(crate) fn current_action(signal: libc::c_int) -> io::Result<libc::sigaction> {
    // SAFETY: all-zero is a valid `sigaction`, here only to be overwritten.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action the call only writes the present one to `action`.
    checked(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) })?;
    Ok(action)
}

/// How many files this process may have open: getrlimit(2) `RLIMIT_NOFILE`.
#[must_use]
pub fn open_files_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(usize::MAX)
}

/// How long a file this process may make: getrlimit(2) `RLIMIT_FSIZE`. A write behind that is a signal, SIGXFSZ.
#[must_use]
pub fn file_bytes_max() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    limit.unwrap_or(u64::MAX)
}

/// How much memory this process may lock: getrlimit(2) `RLIMIT_MEMLOCK`; `None` if any amount.
#[must_use]
pub fn lockable_bytes() -> Option<u64> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    limit.filter(|_| !crate::may_lock_all())
}

/// The processors that this process may use. They are asked for once, because Linux reads several files for that.
#[must_use]
pub fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Makes the allocator keep little free memory: all threads share two arenas, and each block of 512 KiB or more goes back to the
/// system when it is freed. Works only with glibc (mallopt(3)). Call it before threads are started.
pub fn hold_little_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in [(libc::M_ARENA_MAX, 2), (libc::M_MMAP_THRESHOLD, 512 << 10)] {
        // SAFETY: both are numbers that the allocator reads when it makes an arena or a block; what it has made stays valid.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// The kernel's release, "6.18.1": uname(2).
#[must_use]
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// The system's name, "Linux": uname(2).
#[must_use]
pub fn system_name() -> String {
    rustix::system::uname().sysname().to_string_lossy().into_owned()
}

/// The machine's name, if it has one: uname(2).
#[must_use]
pub fn host_name() -> Option<String> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    (!name.is_empty()).then_some(name)
}

/// The size of a memory page in bytes, a power of two.
#[must_use]
pub fn page_bytes() -> usize {
    // Asked once: mechanisms ask for each window.
    static BYTES: AtomicUsize = AtomicUsize::new(0);
    match BYTES.load(Ordering::Relaxed) {
        0 => {
            // rustix asks the kernel for the auxiliary vector, whose addresses are not mapped in a library under valgrind.
            // SAFETY: the call takes no pointer.
            let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
            // It is negative where a system has no answer, which none is known for.
            let bytes = usize::try_from(bytes).unwrap_or(4096);
            BYTES.store(bytes, Ordering::Relaxed);
            bytes
        }
        bytes => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_only_grows() {
        let before = usage(Whose::Process).unwrap();
        let touched = vec![1_u8; 8 << 20];
        std::hint::black_box(&touched);
        let after = usage(Whose::Process).unwrap();
        assert!(after.user + after.system >= before.user + before.system);
        assert!(after.minor_faults >= before.minor_faults);
        assert!(after.peak_memory_bytes >= 8 << 20);
        usage(Whose::Children).unwrap();
    }

    #[test]
    fn the_system_has_names_and_pages() {
        assert!(!system_name().is_empty());
        assert!(!kernel_release().is_empty());
        assert_ne!(host_name(), Some(String::new()));
        assert!(page_bytes().is_power_of_two());
    }
}
