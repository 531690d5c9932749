// SPDX-License-Identifier: MIT
//! Names that run-time compilers give their code in perf map files.

use crate::profile::Frame;

/// What the compiler of a function is told apart by in a map of Node's.
const NODE_PREFIXES: [&str; 5] = ["JS:", "LazyCompile:", "Function:", "Eval:", "Script:"];
const NODE_TIERS: [char; 4] = ['*', '~', '^', '+'];

/// A frame from a name in a perf map file, with the source where Python's and Node's names hold it.
pub fn perf_map_frame(name: &str) -> Frame {
    let name = name.trim();
    python(name)
        .or_else(|| ruby(name))
        .or_else(|| node(name))
        .unwrap_or_else(|| Frame { function: java(name), ..Frame::default() })
}

/// `py::function:/path/file.py`, or with `:line` where the recorder has read the frame itself.
fn python(name: &str) -> Option<Frame> {
    let (function, place) = name.strip_prefix("py::")?.split_once(':')?;
    Some(in_file(function, place))
}

/// `rb::function@/path/file.rb:line`, as the recorder writes it.
fn ruby(name: &str) -> Option<Frame> {
    let (function, place) = name.strip_prefix("rb::")?.split_once('@')?;
    Some(in_file(function, place))
}

fn in_file(function: &str, place: &str) -> Frame {
    let numbered = place.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
    let (file, line) = numbered.map_or((place, None), |(file, line)| (file, Some(line)));
    Frame {
        function: function.into(),
        file: (!file.is_empty()).then(|| file.into()),
        line: line.filter(|line| *line > 0),
        ..Frame::default()
    }
}

/// `JS:*function file:///path/file.js:12:34`; an anonymous function has no name.
fn node(name: &str) -> Option<Frame> {
    let rest = NODE_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    let rest = rest.strip_prefix(NODE_TIERS).unwrap_or(rest);
    let (function, place) = rest.split_once(' ').unwrap_or((rest, ""));
    let mut parts = place.trim().rsplitn(3, ':');
    let (_column, line, file) = (parts.next(), parts.next(), parts.next());
    let line = line.and_then(|line| line.parse().ok());
    let file = if line.is_some() { file } else { Some(place) };
    let file = file.map(|file| file.strip_prefix("file://").unwrap_or(file));
    let file = file.filter(|file| !file.is_empty());
    let function = match (function, file, line) {
        ("", Some(file), Some(line)) => {
            format!("(anonymous {}:{line})", file.rsplit('/').next().unwrap_or(file))
        }
        ("", _, _) => "(anonymous)".into(),
        _ => function.into(),
    };
    Some(Frame { function, file: file.map(str::to_owned), line, ..Frame::default() })
}

/// `Ljava/util/HashMap;::put` of older agents becomes `java.util.HashMap::put`; what the JVM itself
/// writes is left as it is.
fn java(name: &str) -> String {
    match name.strip_prefix('L').and_then(|rest| rest.split_once(";::")) {
        Some((class, method)) => format!("{}::{method}", class.replace('/', ".")),
        None => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is(name: &str, function: &str, file: Option<&str>, line: Option<u32>) {
        let frame = perf_map_frame(name);
        assert_eq!(
            (frame.function.as_str(), frame.file.as_deref(), frame.line),
            (function, file, line)
        );
    }

    #[test]
    fn the_source_is_found_in_the_names() {
        is("py::read_lines:/srv/app.py", "read_lines", Some("/srv/app.py"), None);
        is("py::A.<locals>.f:/srv/app.py:12", "A.<locals>.f", Some("/srv/app.py"), Some(12));
        is("rb::block in rd@/srv/app.rb:12", "block in rd", Some("/srv/app.rb"), Some(12));
        is("rb::<class:Box>@<internal:kernel>:0", "<class:Box>", Some("<internal:kernel>"), None);
        is("JS:*parse file:///srv/a.js:12:34", "parse", Some("/srv/a.js"), Some(12));
        is("LazyCompile:~ /srv/a.js:1:1", "(anonymous a.js:1)", Some("/srv/a.js"), Some(1));
        is("Function:^next node:internal/util:5:7", "next", Some("node:internal/util"), Some(5));
        is("Ljava/util/HashMap;::put", "java.util.HashMap::put", None, None);
        is("void java.lang.Thread.run()", "void java.lang.Thread.run()", None, None);
        is("Builtin:ArrayMap", "Builtin:ArrayMap", None, None);
        is("Interpreter", "Interpreter", None, None);
    }
}
