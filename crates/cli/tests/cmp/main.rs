//! The command `cmp`: files and trees.

#[path = "../common/mod.rs"]
mod common;

mod files;
mod like_diff;
mod same_inode_numbers;
mod trees;
