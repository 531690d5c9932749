//! The verbs.

pub mod list;
pub mod run;
pub mod verify;
