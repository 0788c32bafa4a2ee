//! How often large files of one size are equal.
