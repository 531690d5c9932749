// SPDX-License-Identifier: MIT
//! What the allocator's own table of figures says of each: the one source of explanations.

const TABLE: &str = include_str!(concat!(env!("OUT_DIR"), "/stats.def"));

/// The explanation of a figure as a sentence without its end, such as `Bytes in blocks that the
/// program holds`. The level is that of the table: `PROCESS`, `ARENA`, `CLASS`, `LOCK`.
pub fn help(level: &str, name: &str) -> Option<String> {
    let beginning = format!("{level}({name}, ");
    let line = TABLE.lines().find_map(|line| line.strip_prefix(&beginning))?;
    let mut quoted = line.split('"').skip(1).step_by(2);
    let (unit, help) = (quoted.next()?, quoted.next()?);
    // Durations are given in seconds.
    let mut letters = if unit == "ns" { "seconds" } else { unit }.chars();
    let first = letters.next()?.to_uppercase();
    Some(format!("{first}{} {help}", letters.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_explains_itself() {
        let lines = TABLE.lines().filter(|line| {
            let level = line.split('(').next().unwrap();
            !level.is_empty() && level.bytes().all(|byte| byte.is_ascii_uppercase())
        });
        let mut count = 0;
        for line in lines {
            let (level, rest) = line.split_once('(').unwrap();
            let name = rest.split(',').next().unwrap();
            assert!(help(level, name).is_some_and(|help| help.len() > 8), "{line}");
            count += 1;
        }
        assert!(count > 80, "{count}");
        assert_eq!(help("CLASS", "fills").unwrap(), "Fills of lists of heaps");
        assert_eq!(help("LOCK", "wait_time").unwrap(), "Seconds slept in all");
        assert_eq!(help("PROCESS", "metadata").unwrap(), "Bytes Mallow's own data");
        assert_eq!(help("PROCESS", "none"), None);
    }
}
