/* seekless.h: the C library of seekless. It reads, writes, copies, compares and updates files by the method that a plan
 * chooses for the file and its storage, or by one that you name. docs/c.md has examples.
 *
 * Made by cbindgen of crates/capi; do not edit.
 *
 * Each function may be called by any thread at any time, and blocks until the work is done. A path is NUL-terminated
 * bytes in any encoding, not NULL. Sizes and offsets are in bytes.
 *
 * Options that are NULL are the defaults; a result that is NULL is not told. A call sets the whole result, whatever was in
 * it, so it need not be initialised, and must be freed before it is passed again. Only this library may set its fields.
 *
 * What the caller passes must not change during a call. No call exits the process, installs a handler (but for
 * seekless_allow_mapping), or keeps a pointer.
 */

#ifndef SEEKLESS_H
#define SEEKLESS_H

#include <stddef.h>
#include <stdint.h>

/*
 Whether a call succeeded, and if not, what kind of error it was.
 */
enum seekless_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /*
   The call succeeded.
   */
  SEEKLESS_STATUS_OK,
  /*
   An argument is wrong: NULL where that is not allowed, an unknown method or number, source and target are one file.
   */
  SEEKLESS_STATUS_INVALID,
  /*
   A system call failed; `error_number` says why.
   */
  SEEKLESS_STATUS_SYSTEM,
  /*
   The method that was named is not available on this storage or system.
   */
  SEEKLESS_STATUS_UNAVAILABLE,
  /*
   Not a regular file on a file system of a storage.
   */
  SEEKLESS_STATUS_NOT_REGULAR,
  /*
   The file changed its size while it was read.
   */
  SEEKLESS_STATUS_CHANGED,
  /*
   An update was refused, undone, or ended early; the text says which.
   */
  SEEKLESS_STATUS_UPDATE,
  /*
   The callback of the progress ended the call.
   */
  SEEKLESS_STATUS_STOPPED,
  /*
   A defect in seekless, which standard error tells.
   */
  SEEKLESS_STATUS_INTERNAL,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum seekless_status seekless_status;
#else
typedef uint32_t seekless_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/*
 What a comparison found.
 */
enum seekless_verdict
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /*
   Nothing was compared, or the call failed.
   */
  SEEKLESS_VERDICT_NONE,
  /*
   The files are equal.
   */
  SEEKLESS_VERDICT_EQUAL,
  /*
   They differ; `bytes` is the offset of the first difference.
   */
  SEEKLESS_VERDICT_DIFFER,
  /*
   The first file is shorter, and equal to the start of the second; `bytes` is its length.
   */
  SEEKLESS_VERDICT_FIRST_ENDED,
  /*
   The second file is shorter, and equal to the start of the first; `bytes` is its length.
   */
  SEEKLESS_VERDICT_SECOND_ENDED,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum seekless_verdict seekless_verdict;
#else
typedef uint32_t seekless_verdict;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/*
 What is on the device when a call that writes returns.
 */
enum seekless_durability
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /*
   Nothing, unless the method's text says otherwise.
   */
  SEEKLESS_DURABILITY_NONE,
  /*
   All of it: fsync(2) at the end.
   */
  SEEKLESS_DURABILITY_FSYNC,
  /*
   All of it after each write: `O_DSYNC`. Not for a write or copy by the plan.
   */
  SEEKLESS_DURABILITY_WRITE_THROUGH,
  /*
   The same by fdatasync(2) after each write. Only for methods that have it.
   */
  SEEKLESS_DURABILITY_FDATASYNC_EACH,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum seekless_durability seekless_durability;
#else
typedef uint32_t seekless_durability;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/*
 Whether the target of a write or copy may exist.
 */
enum seekless_destination
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /*
   It is created, and must not exist.
   */
  SEEKLESS_DESTINATION_NEW,
  /*
   It exists, and is overwritten from its start; at the end it has the new size.
   */
  SEEKLESS_DESTINATION_OVERWRITE,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum seekless_destination seekless_destination;
#else
typedef uint32_t seekless_destination;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/*
 The state of a file after an update that ends early.
 */
enum seekless_safety
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /*
   Some changes are in it, and some are not.
   */
  SEEKLESS_SAFETY_IN_PLACE,
  /*
   A journal beside it has the old and new bytes: an error undoes all changes, and after a crash the command
   `seekless update --recover` finishes them.
   */
  SEEKLESS_SAFETY_JOURNAL,
  /*
   It is as before: the changes go to a new file that takes its name.
   */
  SEEKLESS_SAFETY_REPLACE,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum seekless_safety seekless_safety;
#else
typedef uint32_t seekless_safety;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/*
 Gets the bytes of a read, in order, one call at a time, perhaps from another thread than the caller's. `offset` counts
 from the start of what is read. Returns 0 to go on; any other value ends the read, and `is_stopped` is then set.

 Callbacks return normally: a C++ exception that leaves one ends the process, and longjmp is undefined.
 */
typedef int (*seekless_take)(void *context, uint64_t offset, const void *bytes, size_t length);

/*
 What a call did, or why it failed. Free it with `seekless_result_free`.
 */
typedef struct seekless_result {
  /*
   What the call returned.
   */
  seekless_status status;
  /*
   The system's number (errno) of an error, or 0 if no system call failed.
   */
  int32_t error_number;
  /*
   What a comparison found.
   */
  seekless_verdict verdict;
  /*
   1 if `take` ended a read, otherwise 0.
   */
  uint32_t is_stopped;
  /*
   Bytes that were moved, holes included; of a comparison, bytes that are equal; of an update, bytes that it changed.
   */
  uint64_t bytes;
  /*
   The time that a plan predicts, in seconds.
   */
  double seconds;
  /*
   The lower bound of this time.
   */
  double seconds_low;
  /*
   The upper bound of this time.
   */
  double seconds_high;
  /*
   The text of the method that did it or would do it, or NULL.
   */
  char *method;
  /*
   Why this method; or after an error one line with the file, what failed, by which method, and the system's reason.
   UTF-8, never NULL after a call that plans, moves bytes or fails.
   */
  char *text;
  /*
   The file that an error is about, or NULL.
   */
  char *path;
} seekless_result;

/*
 Bytes that an update writes to an offset of a file.
 */
typedef struct seekless_change {
  /*
   Where they go.
   */
  uint64_t offset;
  /*
   The bytes.
   */
  const void *bytes;
  /*
   How many they are.
   */
  size_t length;
} seekless_change;

/*
 Gets the progress of a call about every 16 MiB, perhaps from several threads at the same time. Returns 0 to go on; any
 other value ends the call with `SEEKLESS_STATUS_STOPPED`. A new file is then removed, one that was overwritten holds
 what was written until then, and an update ends as after an error.
 */
typedef int (*seekless_progress)(void *context, uint64_t done_bytes, uint64_t of_bytes);

/*
 How to do it. All fields zero, or NULL instead of the struct: by the plan, to a new file, without durability.
 */
typedef struct seekless_options {
  /*
   The text of a method, as in "copy/sync,block=1M", which then does what it says or fails; or of a plan, as in
   "copy/planned,fsync". NULL: the plan.
   */
  const char *method;
  /*
   A `seekless_durability`.
   */
  uint32_t durability;
  /*
   A `seekless_destination`, of a write or copy.
   */
  uint32_t destination;
  /*
   A `seekless_safety`, of an update.
   */
  uint32_t safety;
  /*
   Not 0: an update may make the file longer.
   */
  uint32_t grows;
  /*
   Gets the progress, and can end the call; or NULL.
   */
  seekless_progress progress;
  /*
   The `context` of `progress`.
   */
  void *progress_context;
} seekless_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The version of this library, as in "0.1.0". Not to be freed.
 */
const char *seekless_version(void);

/*
 Allows the methods of the mechanism mmap in this process: installs a SIGBUS handler, which turns the signal for a mapped
 file that shrank into an error. Nothing else in this library changes the process; call it once and early, or not at all.
 */
seekless_status seekless_allow_mapping(seekless_result *result);

/*
 Reads up to `length` bytes from `offset` of a file into `buffer`. `result->bytes` is how many they were: fewer if the
 file ends before.
 */
seekless_status seekless_read(const char *path,
                              uint64_t offset,
                              void *buffer,
                              size_t length,
                              const seekless_options *options,
                              seekless_result *result);

/*
 Reads `length` bytes from `offset` of a file, or up to its end, and passes them to `take`. A length of
 `UINT64_MAX` is the rest of the file.
 */
seekless_status seekless_read_blocks(const char *path,
                                     uint64_t offset,
                                     uint64_t length,
                                     seekless_take take,
                                     void *context,
                                     const seekless_options *options,
                                     seekless_result *result);

/*
 Writes `length` bytes to a file. Without a durability, they are in the page cache when it returns.
 */
seekless_status seekless_write(const char *path,
                               const void *bytes,
                               size_t length,
                               const seekless_options *options,
                               seekless_result *result);

/*
 Copies a file: its bytes and holes, but not its mode, owner and times.
 */
seekless_status seekless_copy(const char *from,
                              const char *to,
                              const seekless_options *options,
                              seekless_result *result);

/*
 Compares two regular files up to the first difference: see `result->verdict` and `result->bytes`. Files that differ are
 a success, too.
 */
seekless_status seekless_compare(const char *a,
                                 const char *b,
                                 const seekless_options *options,
                                 seekless_result *result);

/*
 Makes `count` changes in a file, in few writes. Of changes that overlap, the last one counts. The file keeps its size,
 unless `options->grows`.
 */
seekless_status seekless_update(const char *path,
                                const seekless_change *changes,
                                size_t count,
                                const seekless_options *options,
                                seekless_result *result);

/*
 Predicts how long an operation takes, and by which method, but does not carry it out. `plan` is its text, as in
 "copy/planned,fsync"; `other` is the target of a copy or the second file of a comparison, `bytes` the length of a write.
 Updates are planned when they are carried out. It measures for at most 100 ms.
 */
seekless_status seekless_plan(const char *plan,
                              const char *path,
                              const char *other,
                              uint64_t bytes,
                              seekless_result *result);

/*
 Frees what a result owns and makes it empty; also of a struct of zeros, and more than once.
 */
void seekless_result_free(struct seekless_result *result);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SEEKLESS_H */
