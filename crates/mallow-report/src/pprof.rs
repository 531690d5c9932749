//! The profile in the format of pprof (profile.proto), uncompressed.
//!
//! The messages are written out here rather than generated, so that the build needs no protoc; the
//! tags are those of https://github.com/google/pprof/blob/main/proto/profile.proto.

use std::collections::HashMap;

use prost::Message;

use crate::profile::{Costs, Frame, Profile};

#[derive(Clone, PartialEq, Message)]
struct PprofProfile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<PprofSample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct PprofSample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
    #[prost(bool, tag = "8")]
    has_filenames: bool,
    #[prost(bool, tag = "9")]
    has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    has_inline_frames: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// What pprof offers with `-sample_index`.
const VALUES: [(&str, &str); 9] = [
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("peak_objects", "count"),
    ("peak_space", "bytes"),
    ("leaked_objects", "count"),
    ("leaked_space", "bytes"),
    ("temporary_objects", "count"),
    ("temporary_space", "bytes"),
    ("lifetime", "nanoseconds"),
];

fn values(costs: &Costs) -> Vec<i64> {
    let of = |amount: crate::held::Amount| [amount.blocks, amount.bytes];
    let amounts = [costs.allocated, costs.peak, costs.leaked, costs.temporary];
    let values = amounts.into_iter().flat_map(of).chain([costs.lifetime_ns]);
    values.map(|value| i64::try_from(value).unwrap_or(i64::MAX)).collect()
}

/// The bytes of the profile; pprof reads them as they are and compressed with gzip.
pub fn encode(
    profile: &Profile,
    executable: &str,
    started_unix_ns: u64,
    duration_ns: u64,
) -> Vec<u8> {
    let mut builder = Builder::default();
    builder.string("");
    // The first mapping is taken for the program itself.
    builder.mapping(executable);
    let mut message = PprofProfile {
        sample_type: VALUES
            .iter()
            .map(|(name, unit)| ValueType {
                r#type: builder.string(name),
                unit: builder.string(unit),
            })
            .collect(),
        default_sample_type: builder.string("alloc_space"),
        time_nanos: i64::try_from(started_unix_ns).unwrap_or(0),
        duration_nanos: i64::try_from(duration_ns).unwrap_or(0),
        ..PprofProfile::default()
    };
    for frame in &profile.frames {
        builder.location(frame);
    }
    for sample in &profile.samples {
        message.sample.push(PprofSample {
            location_id: sample.frames.iter().map(|frame| u64::from(*frame) + 1).collect(),
            value: values(&sample.costs),
        });
    }
    message.mapping = builder.mappings;
    message.location = builder.locations;
    message.function = builder.functions;
    message.string_table = builder.strings;
    message.encode_to_vec()
}

#[derive(Default)]
struct Builder {
    strings: Vec<String>,
    known_strings: HashMap<String, i64>,
    mappings: Vec<Mapping>,
    known_mappings: HashMap<i64, u64>,
    functions: Vec<Function>,
    known_functions: HashMap<(i64, i64), u64>,
    locations: Vec<Location>,
}

impl Builder {
    fn string(&mut self, text: &str) -> i64 {
        if let Some(index) = self.known_strings.get(text) {
            return *index;
        }
        let index = self.strings.len() as i64;
        self.strings.push(text.to_owned());
        self.known_strings.insert(text.to_owned(), index);
        index
    }

    fn mapping(&mut self, path: &str) -> u64 {
        let filename = self.string(path);
        let next = self.mappings.len() as u64 + 1;
        let id = *self.known_mappings.entry(filename).or_insert(next);
        if id == next {
            self.mappings.push(Mapping {
                id,
                filename,
                has_functions: true,
                has_filenames: true,
                has_line_numbers: true,
                has_inline_frames: true,
            });
        }
        id
    }

    fn function(&mut self, frame: &Frame) -> u64 {
        let name = self.string(&frame.function);
        let filename = self.string(frame.file.as_deref().unwrap_or(""));
        let next = self.functions.len() as u64 + 1;
        let id = *self.known_functions.entry((name, filename)).or_insert(next);
        if id == next {
            self.functions.push(Function { id, name, system_name: name, filename });
        }
        id
    }

    /// Inlined frames are locations of their own: the samples list them where they belong.
    fn location(&mut self, frame: &Frame) {
        let mapping_id = frame.module.as_deref().map_or(0, |module| self.mapping(module));
        let function_id = self.function(frame);
        let line = Line { function_id, line: frame.line.map_or(0, i64::from) };
        let id = self.locations.len() as u64 + 1;
        self.locations.push(Location { id, mapping_id, line: vec![line] });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::sample;

    #[test]
    fn every_reference_in_the_message_is_defined() {
        let bytes = encode(&sample(), "program", 1, 2);
        let message = PprofProfile::decode(bytes.as_slice()).unwrap();
        assert_eq!(message.string_table[0], "");
        assert_eq!(message.sample.len(), 2);
        let name = |index: i64| message.string_table[index as usize].as_str();
        for sample in &message.sample {
            assert_eq!(sample.value.len(), message.sample_type.len());
            for id in &sample.location_id {
                let location = message.location.iter().find(|l| l.id == *id).unwrap();
                let function =
                    message.functions_of(location).expect("a location without a function");
                assert!(!name(function.name).is_empty());
            }
        }
        let first = &message.sample[0];
        let innermost = &message.location[first.location_id[0] as usize - 1];
        assert_eq!(name(message.functions_of(innermost).unwrap().name), "new_line<a;b>");
        assert_eq!(first.value[..2], [15, 1500]);
    }

    impl PprofProfile {
        fn functions_of(&self, location: &Location) -> Option<&Function> {
            self.function.iter().find(|f| f.id == location.line[0].function_id)
        }
    }
}
