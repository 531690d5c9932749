// SPDX-License-Identifier: MIT
//! What `replay` and `tune` share: a trace becomes the plan of one process (`input`), which the player
//! carries out on an allocator (`player`).

pub mod input;
mod player;

pub use input::Input;
pub use player::{Player, Touch};
