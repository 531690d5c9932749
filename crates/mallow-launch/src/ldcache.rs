// SPDX-License-Identifier: MIT
//! Reads `/etc/ld.so.cache`, the loader's own list of libraries.

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER_SIZE: usize = 48;
const ENTRY_SIZE: usize = 24;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub soname: String,
    pub path: String,
}

/// The entries of a cache file; empty if it is not one, or as many as are whole.
pub fn parse(cache: &[u8]) -> Vec<Entry> {
    // Old systems put a table in an older format first.
    let Some(start) = cache.windows(MAGIC.len()).position(|window| window == MAGIC) else {
        return Vec::new();
    };
    let cache = &cache[start..];
    let count = read_u32(cache, MAGIC.len()).unwrap_or(0) as usize;
    let mut entries = Vec::new();
    for at in (0..count).map(|index| HEADER_SIZE + index * ENTRY_SIZE) {
        let (Some(key), Some(value)) = (read_u32(cache, at + 4), read_u32(cache, at + 8)) else {
            break;
        };
        if let (Some(soname), Some(path)) = (read_string(cache, key), read_string(cache, value)) {
            entries.push(Entry { soname, path });
        }
    }
    entries
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

fn read_string(bytes: &[u8], at: u32) -> Option<String> {
    let rest = bytes.get(at as usize..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    String::from_utf8(rest[..end].to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache_with(pairs: &[(&str, &str)]) -> Vec<u8> {
        let mut cache = MAGIC.to_vec();
        cache.extend((pairs.len() as u32).to_ne_bytes());
        cache.resize(HEADER_SIZE, 0);
        let mut strings = Vec::new();
        let strings_at = HEADER_SIZE + pairs.len() * ENTRY_SIZE;
        for (soname, path) in pairs {
            let mut entry = vec![0u8; ENTRY_SIZE];
            for (field, text) in [(4, soname), (8, path)] {
                let at = (strings_at + strings.len()) as u32;
                entry[field..field + 4].copy_from_slice(&at.to_ne_bytes());
                strings.extend(text.as_bytes());
                strings.push(0);
            }
            cache.extend(entry);
        }
        cache.extend(strings);
        cache
    }

    #[test]
    fn entries_are_read_also_behind_an_older_table() {
        let cache = cache_with(&[("liba.so.1", "/lib/liba.so.1"), ("libb.so", "/opt/libb.so")]);
        let mut old = b"ld.so-1.7.0\0\0\0\0\0".to_vec();
        old.extend(&cache);
        for bytes in [cache, old] {
            let entries = parse(&bytes);
            assert_eq!(entries.len(), 2);
            assert_eq!(entries[1], Entry { soname: "libb.so".into(), path: "/opt/libb.so".into() });
        }
    }

    #[test]
    fn cut_and_foreign_files_give_what_is_whole() {
        let cache = cache_with(&[("liba.so.1", "/lib/liba.so.1")]);
        for length in 0..cache.len() {
            assert!(parse(&cache[..length]).is_empty());
        }
        assert!(parse(b"something else").is_empty());
    }

    #[test]
    fn this_systems_cache_names_existing_files() {
        let Ok(cache) = std::fs::read("/etc/ld.so.cache") else {
            eprintln!("skipped: this system has no /etc/ld.so.cache");
            return;
        };
        let entries = parse(&cache);
        assert!(entries.iter().any(|entry| entry.soname.starts_with("libc.so")));
        assert!(entries.iter().all(|entry| entry.path.starts_with('/')));
    }
}
