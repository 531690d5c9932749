// SPDX-License-Identifier: MIT
//! Which frames of a stack are shown: as a rule, those that the reader can do something about.

use crate::profile::{Frame, Profile};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// From the first frame of the user's on, without inlined callers.
    #[default]
    User,
    /// The same, with inlined callers.
    Inlined,
    /// Every frame.
    All,
}

impl Profile {
    /// The same costs, by stacks with these frames.
    pub fn with(&self, detail: Detail) -> Profile {
        let mut profile = Profile::default();
        for frame in &self.frames {
            profile.intern(frame.clone());
        }
        let is_library: Vec<bool> = self.frames.iter().map(is_library).collect();
        for sample in &self.samples {
            let mut frames = sample.frames.as_slice();
            let first = frames.iter().position(|&frame| !is_library[frame as usize]);
            if detail != Detail::All {
                frames = &frames[first.unwrap_or(0)..];
            }
            let is_shown = |&(at, &frame): &(usize, &u32)| {
                at == 0 || detail != Detail::User || !self.frames[frame as usize].inlined
            };
            let shown = frames.iter().enumerate().filter(is_shown).map(|(_, &frame)| frame);
            profile.add(shown.collect(), &sample.costs);
        }
        profile
    }
}

/// Of the standard libraries of C++ and Rust, through which a program allocates.
fn is_library(frame: &Frame) -> bool {
    const FILES: [&str; 3] = ["libstdc++.so", "libc++.so", "libc++abi.so"];
    let module = frame.module.as_deref().unwrap_or_default();
    let file = module.rsplit('/').next().unwrap_or_default();
    begins(file, &FILES) || is_library_name(&frame.function) || has_library_source(frame)
}

/// Inlined functions of C++ have names without their class, and some of Rust begin with a user's type. The name of any
/// other tells more: its line may be that of an inlined one, where debug information leaves these out.
fn has_library_source(frame: &Frame) -> bool {
    let is_source = |file: &str| {
        let is_of_rust = file.starts_with("/rustc/") && file.contains("/library/");
        is_of_rust || file.contains("/rustlib/src/rust/library/") || file.contains("/include/c++/")
    };
    let is_name_short = frame.inlined || frame.function.starts_with('<');
    is_name_short && frame.file.as_deref().is_some_and(is_source)
}

fn begins(name: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

fn is_library_name(function: &str) -> bool {
    const CXX: [&str; 3] = ["std::", "__gnu_cxx::", "operator new"];
    // What no demangler could read.
    const MANGLED: [&str; 4] = ["_ZSt", "_ZNSt", "_ZNKSt", "_ZN9__gnu_cxx"];
    if function.contains('(') {
        begins(cxx_name(function), &CXX)
    } else {
        begins(function, &MANGLED) || is_rust_name(function)
    }
}

fn is_rust_name(function: &str) -> bool {
    const RUST: [&str; 8] =
        ["std::", "alloc::", "core::", "hashbrown::", "__rust_", "__rdl_", "__rg_", "__rustc"];
    // `<alloc::string::String as core::clone::Clone>::clone`, `<&mut core::…>`
    let name = function.trim_start_matches(['<', '&', '[']);
    if begins(name.strip_prefix("mut ").unwrap_or(name), &RUST) {
        return true;
    }
    // `<str>::repeat`, `<T as alloc::string::ToString>::to_string`: a type of the language, which has no path.
    let Some((of, rest)) = function.strip_prefix('<').and_then(|n| n.split_once([' ', '>'])) else {
        return false;
    };
    let is_own = |of: &str| begins(of, &RUST);
    !of.contains("::") && (rest.starts_with("::") || rest.strip_prefix("as ").is_some_and(is_own))
}

/// The name alone of a function of C++ with its parameters, and perhaps its type before it.
fn cxx_name(function: &str) -> &str {
    const UNNAMED: &str = "(anonymous namespace)";
    let (mut depth, mut begin) = (0i32, 0);
    for (at, letter) in function.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            ' ' if depth == 0 && !function[begin..at].ends_with("operator") => begin = at + 1,
            '(' if depth == 0 && !function[at..].starts_with(UNNAMED) => {
                return &function[begin..at];
            }
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
    }
    &function[begin..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::Amount;
    use crate::profile::Costs;

    #[test]
    fn libraries_are_told_from_users() {
        for name in [
            "std::vector<int, std::allocator<int> >::push_back(int&&)",
            "void std::vector<user::Item>::_M_realloc_insert<user::Item>(user::Item&&)",
            "int* std::__do_uninit_copy<int const*, int*>(int const*, int const*, int*)",
            "__gnu_cxx::new_allocator<char>::allocate(unsigned long, void const*)",
            "operator new(unsigned long)",
            "alloc::vec::Vec<T,A>::push",
            "<alloc::string::String as core::clone::Clone>::clone",
            "hashbrown::raw::RawTable<T,A>::reserve_rehash",
            "__rust_alloc",
            "<str>::repeat",
            "<str>::to_lowercase",
            "<[T]>::to_vec",
            "<str as core::fmt::Debug>::fmt",
            "<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
            "<T as alloc::slice::<impl [T]>::to_vec_in::ConvertVec>::to_vec",
            "<i32 as alloc::string::SpecToString>::spec_to_string",
            "_ZSt11make_sharedI1BJEESt10shared_ptrIT_EDpOT0_",
            "_ZNSt6vectorI1BSaIS0_EE9push_backERKS0_",
            "_ZNKSt6vectorI1BSaIS0_EE4sizeEv",
            "_ZN9__gnu_cxx13new_allocatorI1BE8allocateEmPKv",
        ] {
            assert!(is_library_name(name), "{name}");
        }
        for name in [
            "main",
            "user::fill(std::vector<int>&)",
            "std::vector<int> user::make<std::string>(int)",
            "(anonymous namespace)::make(std::string const&)",
            "user::operator new[](unsigned long, user::Arena&)",
            "alloc::pages(int)",
            "<user::Item as core::clone::Clone>::clone",
            "user::main::{{closure}}",
            "allocate_all",
            "<user::Item>::new",
            "<str as user::Shout>::shout",
            "<T as user::Make>::make",
            "<[user::Item] as core::fmt::Debug>::fmt",
            "<dyn user::Make>::make",
            "_ZN4user4makeEv",
            "_Z4fillSt6vectorIiSaIiEE",
        ] {
            assert!(!is_library_name(name), "{name}");
        }
    }

    #[test]
    fn libraries_are_told_by_their_sources_too() {
        let of = |function: &str, file: &str, inlined| {
            let (function, file) = (function.into(), Some(file.into()));
            is_library(&Frame { function, file, inlined, ..Frame::default() })
        };
        let is_told = |function: &str, file: &str| of(function, file, true);
        let once = "<<user::Item>::from as core::ops::function::FnOnce<(&str,)>>::call_once";
        let of_rust = "/rustc/59807616e1fa2540724b/library/core/src/ops/function.rs";
        assert!(is_told(once, of_rust) && of(once, of_rust, false));
        let installed = "/home/me/rust/lib/rustlib/src/rust/library/core/src/a.rs";
        assert!(is_told(once, installed));
        let create = "_M_create<make()::<lambda()> >";
        let of_cxx = "/usr/include/c++/12/bits/std_function.h";
        assert!(is_told(create, of_cxx) && !of("fill(std::vector<int>&)", of_cxx, false));
        assert!(is_told(create, "/usr/lib/llvm-18/bin/../include/c++/v1/__functional/function.h"));
        for file in ["/home/me/library/src/a.rs", "/usr/include/boost/f.hpp", "src/c++/a.cc"] {
            assert!(!is_told(create, file) && !is_told(once, file), "{file}");
        }
    }

    fn names(profile: &Profile) -> Vec<Vec<&str>> {
        let name = |frame: &u32| profile.frames[*frame as usize].function.as_str();
        profile.samples.iter().map(|sample| sample.frames.iter().map(name).collect()).collect()
    }

    #[test]
    fn stacks_begin_with_the_first_frame_of_the_users() {
        let mut profile = Profile::default();
        let frame = |function: &str, inlined| Frame {
            function: function.into(),
            inlined,
            ..Frame::default()
        };
        let [push, grow, fill, work, main] = [
            ("std::vector<int>::push_back(int&&)", true),
            ("std::vector<int>::_M_grow()", false),
            ("fill(int)", true),
            ("work(int)", true),
            ("main", false),
        ]
        .map(|(name, inlined)| profile.intern(frame(name, inlined)));
        let costs = Costs { allocated: Amount { blocks: 1, bytes: 8 }, ..Costs::default() };
        profile.add(vec![grow, push, fill, work, main], &costs);
        profile.add(vec![push, fill, work, main], &costs);
        profile.add(vec![grow], &costs);
        let of = |detail| profile.with(detail);
        assert_eq!(
            names(&of(Detail::User)),
            [&["fill(int)", "main"][..], &["std::vector<int>::_M_grow()"]]
        );
        assert_eq!(of(Detail::User).samples[0].costs.allocated.bytes, 16);
        assert_eq!(names(&of(Detail::Inlined))[0], ["fill(int)", "work(int)", "main"]);
        assert_eq!(names(&of(Detail::All)), names(&profile));
    }
}
