//! The verbs.

pub mod help;
pub mod list;
pub mod run;
pub mod verify;
