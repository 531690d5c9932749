// SPDX-License-Identifier: MIT
//! Nothing: this package exists for its dependencies (see Cargo.toml and the script `build`).
