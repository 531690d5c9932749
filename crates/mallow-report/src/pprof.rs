// SPDX-License-Identifier: MIT
//! The profile in the format of pprof (profile.proto), uncompressed.
//!
//! The messages are written out here rather than generated, so that the build needs no protoc; the
//! tags are those of https://github.com/google/pprof/blob/main/proto/profile.proto.

use std::collections::{BTreeMap, HashMap};

use prost::Message;

use crate::heap_profile::HeapProfile;
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
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
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
    #[prost(uint64, tag = "2")]
    memory_start: u64,
    #[prost(uint64, tag = "3")]
    memory_limit: u64,
    #[prost(uint64, tag = "4")]
    file_offset: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(int64, tag = "6")]
    build_id: i64,
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
    #[prost(uint64, tag = "3")]
    address: u64,
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
                ..Mapping::default()
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
        self.locations.push(Location { id, mapping_id, address: 0, line: vec![line] });
    }

    /// A mapping as the process had it.
    fn code(&mut self, code: &Code) {
        let filename = self.string(&code.path);
        let build_id: String = code.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let build_id = self.string(&build_id);
        self.mappings.push(Mapping {
            id: self.mappings.len() as u64 + 1,
            memory_start: code.start,
            memory_limit: code.end,
            file_offset: code.offset,
            filename,
            build_id,
            has_functions: code.has_names,
            has_filenames: code.has_names,
            has_line_numbers: code.has_names,
            has_inline_frames: code.has_names,
        });
    }

    /// An address with the functions that it is in, innermost first.
    fn address(&mut self, address: u64, mapping_id: u64, frames: &[Frame]) -> u64 {
        let lines = frames.iter().map(|frame| Line {
            function_id: self.function(frame),
            line: frame.line.map_or(0, i64::from),
        });
        let line = lines.collect();
        let id = self.locations.len() as u64 + 1;
        self.locations.push(Location { id, mapping_id, address, line });
        id
    }
}

/// A mapping with code, of the process that a heap profile is of.
#[derive(Clone, Debug, Default)]
pub struct Code {
    pub start: u64,
    pub end: u64,
    /// In the file.
    pub offset: u64,
    pub path: String,
    pub build_id: Vec<u8>,
    /// Whether functions in it were looked up; readers that find no names look them up themselves.
    pub has_names: bool,
}

/// Which of a heap profile's values readers show first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// What is held.
    Held,
    /// What was ever asked for; the profile needs to have it.
    All,
}

/// What a heap profile's pprof says beside its stacks.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    pub written_unix_ns: u64,
    pub shown: Shown,
    pub comments: &'a [String],
}

/// The bytes of a heap profile's pprof. `code`: the program first; `names`: of each call, by the address
/// before the one that it returns to, innermost first.
pub fn encode_heap(
    heap: &HeapProfile,
    code: &[Code],
    names: &BTreeMap<u64, Vec<Frame>>,
    about: &About,
) -> Vec<u8> {
    let mut builder = Builder::default();
    builder.string("");
    code.iter().for_each(|code| builder.code(code));
    let mut value_type =
        |name, unit| ValueType { r#type: builder.string(name), unit: builder.string(unit) };
    let mut sample_type = Vec::new();
    if heap.has_all() {
        sample_type.push(value_type("alloc_objects", "count"));
        sample_type.push(value_type("alloc_space", "bytes"));
    }
    sample_type.push(value_type("inuse_objects", "count"));
    sample_type.push(value_type("inuse_space", "bytes"));
    let period_type = Some(value_type("space", "bytes"));
    let mut known: HashMap<u64, u64> = HashMap::new();
    let mut samples = Vec::with_capacity(heap.stacks.len());
    for stack in &heap.stacks {
        let mut location = |address: &u64| {
            let address = address.saturating_sub(1);
            *known.entry(address).or_insert_with(|| {
                let holds = |code: &Code| (code.start..code.end).contains(&address);
                let mapping = code.iter().position(holds).map_or(0, |index| index as u64 + 1);
                builder.address(address, mapping, names.get(&address).map_or(&[], |names| names))
            })
        };
        let amounts = if heap.has_all() { vec![stack.all, stack.live] } else { vec![stack.live] };
        let values = amounts.iter().flat_map(|amount| [amount.blocks, amount.bytes]);
        samples.push(PprofSample {
            location_id: stack.addresses.iter().map(&mut location).collect(),
            value: values.map(|value| i64::try_from(value).unwrap_or(i64::MAX)).collect(),
        });
    }
    let message = PprofProfile {
        sample_type,
        sample: samples,
        comment: about.comments.iter().map(|comment| builder.string(comment)).collect(),
        default_sample_type: builder.string(match about.shown {
            Shown::Held => "inuse_space",
            Shown::All => "alloc_space",
        }),
        mapping: builder.mappings,
        location: builder.locations,
        function: builder.functions,
        string_table: builder.strings,
        time_nanos: i64::try_from(about.written_unix_ns).unwrap_or(0),
        period_type,
        period: i64::try_from(heap.distance).unwrap_or(i64::MAX),
        ..PprofProfile::default()
    };
    message.encode_to_vec()
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

    #[test]
    fn heap_profiles_keep_addresses_mappings_and_build_ids() {
        let text = "heap_v2/1\n@ 0x1011 0x2021\n  t*: 2: 2000 [3: 3000]\n@ 0x1011 0x9\n  t*: 1: 50 [0: 0]\n\
                    MAPPED_LIBRARIES:\n";
        let heap = HeapProfile::parse(text).unwrap();
        let code = |start, path: &str| Code {
            start,
            end: start + 0x1000,
            offset: 0x400,
            path: path.into(),
            build_id: vec![0xab, 0x01],
            has_names: true,
        };
        let frame = |name: &str| Frame { function: name.into(), ..Frame::default() };
        let comments = ["a note".to_owned()];
        let about = About { written_unix_ns: 7, shown: Shown::Held, comments: &comments };
        let names = BTreeMap::from([(0x1010, vec![frame("inlined"), frame("outer")])]);
        let bytes =
            encode_heap(&heap, &[code(0x1000, "program"), code(0x2000, "lib")], &names, &about);
        let message = PprofProfile::decode(bytes.as_slice()).unwrap();
        let name = |index: i64| message.string_table[index as usize].as_str();
        let types: Vec<&str> = message.sample_type.iter().map(|kind| name(kind.r#type)).collect();
        assert_eq!(types, ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]);
        assert_eq!((message.period, name(message.default_sample_type)), (1, "inuse_space"));
        assert_eq!((message.time_nanos, name(message.comment[0])), (7, "a note"));
        assert_eq!(message.sample[0].value, [3, 3000, 2, 2000]);
        let location = |id: u64| &message.location[id as usize - 1];
        let stack: Vec<_> = message.sample[0].location_id.iter().map(|id| location(*id)).collect();
        assert_eq!(stack.iter().map(|place| place.address).collect::<Vec<_>>(), [0x1010, 0x2020]);
        let mapping = |place: &Location| &message.mapping[place.mapping_id as usize - 1];
        assert_eq!(name(mapping(stack[1]).filename), "lib");
        assert_eq!(name(mapping(stack[1]).build_id), "ab01");
        assert_eq!(mapping(stack[1]).memory_limit - mapping(stack[1]).memory_start, 0x1000);
        let function = |line: &Line| name(message.function[line.function_id as usize - 1].name);
        assert_eq!(stack[0].line.iter().map(function).collect::<Vec<_>>(), ["inlined", "outer"]);
        // The same place is one location; one in no mapping has none.
        assert_eq!(message.sample[1].location_id[0], message.sample[0].location_id[0]);
        assert_eq!(location(message.sample[1].location_id[1]).mapping_id, 0);
    }

    impl PprofProfile {
        fn functions_of(&self, location: &Location) -> Option<&Function> {
            self.function.iter().find(|f| f.id == location.line[0].function_id)
        }
    }
}
