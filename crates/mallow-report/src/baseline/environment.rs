// SPDX-License-Identifier: MIT
//! The environment of a command. Programs copy it, so that a variable more is an allocation more, or
//! a larger one, in which nobody changed the program.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

/// How large an environment is. What is in it may be secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    pub variables: u64,
    /// Of names and values.
    pub bytes: u64,
}

/// So that a table that has grown once grows again.
const LEAST_PADDING: u64 = 16;

impl Environment {
    pub fn of(variables: impl Iterator<Item = (OsString, OsString)>) -> Environment {
        let none = Environment { variables: 0, bytes: 0 };
        variables.fold(none, |sum, (name, value)| Environment {
            variables: sum.variables + 1,
            bytes: sum.bytes + (name.len() + value.len()) as u64,
        })
    }

    /// Variables that make it more than twice as large.
    pub fn padding(self) -> Vec<(String, String)> {
        let count = self.variables.max(LEAST_PADDING);
        let value = "x".repeat((self.bytes / count) as usize + 1);
        (0..count).map(|number| (format!("PADDING_{number}"), value.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_doubles_an_environment() {
        for (variables, bytes) in [(0, 0), (1, 100_000), (40, 900)] {
            let before = Environment { variables, bytes };
            let padding = before.padding().into_iter();
            let padding = Environment::of(padding.map(|(name, value)| (name.into(), value.into())));
            assert!(padding.variables >= variables.max(16) && padding.bytes > bytes, "{padding:?}");
        }
    }
}
